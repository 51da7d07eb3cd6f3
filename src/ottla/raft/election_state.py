"""What a replica must not forget about elections, and its file `quorum-state`.

A voter that forgot its vote could vote twice in an epoch, a leader that forgot itself could lead it
twice. The file is Kafka's: data version 0 with a fixed set of voters (`kraft.version` 0), else 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.protocol.uuids import ZERO_UUID, from_text, to_text
from ottla.raft.ids import NO_LEADER, ReplicaKey

_NOT_VOTED = -1


@dataclass(frozen=True, slots=True)
class ElectionState:
    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    @property
    def has_leader(self) -> bool:
        return self.leader_id != NO_LEADER

    def to_bytes(self, voter_ids: tuple[int, ...], kraft_version: int) -> bytes:
        data: dict[str, Any] = {
            "leaderId": self.leader_id,
            "leaderEpoch": self.epoch,
            "votedId": self.voted.id if self.voted else _NOT_VOTED,
        }
        if kraft_version == 0:
            voters = [{"voterId": voter} for voter in voter_ids]
            data = {"clusterId": "", **data, "appliedOffset": 0, "currentVoters": voters}
        else:
            data["votedDirectoryId"] = to_text(
                self.voted.directory_bytes if self.voted else ZERO_UUID
            )
        data["data_version"] = min(kraft_version, 1)
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ElectionState:
        """`ValueError` if this is not such a file."""
        try:
            fields = json.loads(data)
            voted_id = int(fields["votedId"])
            directory = (
                from_text(fields["votedDirectoryId"]) if "votedDirectoryId" in fields else b""
            )
            voted = ReplicaKey.of(voted_id, directory or ZERO_UUID)
            return cls(
                int(fields["leaderEpoch"]),
                int(fields["leaderId"]),
                None if voted_id == _NOT_VOTED else voted,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no quorum state: {error!r}") from error
