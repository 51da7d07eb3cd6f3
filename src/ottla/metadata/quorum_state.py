"""The file `quorum-state` beside the metadata log: which epoch this node last took part in.

A voter must not forget an epoch, or it could vote or lead twice in it. What is in the file is in
`ottla.raft.election_state`.
"""

from __future__ import annotations

from ottla.raft.election_state import ElectionState
from ottla.runtime.disk import Disk

FILE_NAME = "quorum-state"


def read_epoch(disk: Disk, directory: str) -> int:
    """The epoch in the file; 0 if there is none. `ValueError` if the file cannot be understood."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return 0
    try:
        return ElectionState.from_bytes(disk.read_bytes(path)).epoch
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({error}); restore it, or remove it if the metadata log beside it "
            "is whole: the epoch is then taken from the log"
        ) from error


def write(disk: Disk, directory: str, content: bytes) -> None:
    """Durable when this returns."""
    disk.replace_bytes(f"{directory}/{FILE_NAME}", content)
