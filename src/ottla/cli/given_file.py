"""Files that a user names: one that cannot be read is a wrong call, told in one sentence."""

from __future__ import annotations

from pathlib import Path


class CannotRead(Exception):
    """The file that an option names cannot be read. Every command ends with 2 then."""

    def __init__(self, file: Path | str, error: OSError) -> None:
        super().__init__(f"cannot read {file}: {error.strerror}")
