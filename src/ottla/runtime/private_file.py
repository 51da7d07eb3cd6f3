"""Files that only their owner may read: keys and passwords."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write the whole file or nothing; nobody else can read it at any moment."""
    passing = path.with_name(f"{path.name}.new")
    passing.unlink(missing_ok=True)
    descriptor = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    passing.replace(path)
