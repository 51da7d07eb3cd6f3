"""The file `quorum-state` beside the metadata log: what this node must not forget of elections.

A voter must not forget an epoch, or it could vote or lead twice in it. What is in the file is in
`ottla.raft.election_state`.
"""

from __future__ import annotations

from ottla.raft.election_state import ElectionState
from ottla.runtime.disk import Disk

FILE_NAME = "quorum-state"


def read(disk: Disk, directory: str) -> bytes | None:
    """The content; None if there is no file. `ValueError` if it cannot be understood."""
    path = f"{directory}/{FILE_NAME}"
    try:
        content = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        ElectionState.from_bytes(content)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({error}); restore it, or remove it if the metadata log beside it "
            "is whole and this node is alone: the epoch is then taken from the log"
        ) from error
    return content


def write(disk: Disk, directory: str, content: bytes) -> None:
    """Durable when this returns."""
    disk.replace_bytes(f"{directory}/{FILE_NAME}", content)
