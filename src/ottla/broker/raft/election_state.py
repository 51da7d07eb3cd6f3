"""The durable state of elections, and its file `quorum-state`.

A voter that forgot its vote could vote twice in an epoch; a leader that forgot its leadership could
lead the same epoch twice. The file format is Kafka's: data version 0 with a fixed set of voters
(`kraft.version` 0), else 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.broker.raft.ids import NO_LEADER, ReplicaKey
from ottla.protocol.uuids import ZERO_UUID, from_text, to_text

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
        """Parse the file; raises `ValueError` if it is invalid."""
        try:
            fields = json.loads(data)
            if fields["data_version"] not in (0, 1):
                raise ValueError(f"data_version {fields['data_version']} is unknown")
            if int(fields["leaderEpoch"]) < 0:
                raise ValueError(f"leaderEpoch is {fields['leaderEpoch']}")
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
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError("it is not JSON") from error
        except KeyError as error:
            raise ValueError(f"it lacks {error}") from error
        except TypeError as error:
            raise ValueError("it is not an object with numbers") from error
