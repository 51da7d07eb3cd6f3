"""The file `quorum-state` beside the metadata log: which epoch this node last took part in.

A voter must not forget an epoch, or it could vote or lead twice in it. The file has Kafka's format
(its data version 0, the one of a fixed set of voters).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.runtime.disk import Disk

FILE_NAME = "quorum-state"


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(
            {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": -1,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
                "data_version": 0,
            },
            separators=(",", ":"),
        ).encode()


def read_epoch(disk: Disk, directory: str) -> int:
    """The epoch in the file; 0 if there is none. `ValueError` if the file cannot be understood."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return 0
    try:
        return int(json.loads(disk.read_bytes(path))["leaderEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); restore it, or remove it if the metadata log beside it "
            "is whole: the epoch is then taken from the log"
        ) from error


def write(disk: Disk, directory: str, state: QuorumState) -> None:
    """Durable when this returns."""
    disk.replace_bytes(f"{directory}/{FILE_NAME}", state.to_bytes())
