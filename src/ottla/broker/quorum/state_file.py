"""The file `quorum-state` beside the metadata log: this node's durable state of elections.

A voter must not forget an epoch, or it could vote or lead twice in it. The format of the file is in
`ottla.broker.raft.election_state`.
"""

from __future__ import annotations

from ottla.broker.raft.election_state import ElectionState
from ottla.broker.storage.errors import CorruptFile
from ottla.runtime.disk import Disk

FILE_NAME = "quorum-state"


def read(disk: Disk, directory: str) -> bytes | None:
    """Return the content; None if there is no file. Raises `CorruptFile` if it is invalid."""
    path = f"{directory}/{FILE_NAME}"
    try:
        content = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        ElectionState.from_bytes(content)
    except ValueError as error:
        raise CorruptFile(
            path,
            f"damaged ({error}). Restore it from a copy. If there is none: a node that is the only "
            "controller may start without this file, with the epoch that its log ends with; one of "
            "several may have voted and not know it, so first wait until the others have a leader",
        ) from error
    return content


def write(disk: Disk, directory: str, content: bytes) -> None:
    """Write the file durably."""
    disk.replace_bytes(f"{directory}/{FILE_NAME}", content)
