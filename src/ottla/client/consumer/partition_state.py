"""The position in one partition, and what must happen before records can be fetched.

    NEW ──committed offset──> VALIDATE ──same history──> READY
     │                           │  ^                      │
     └──none──> RESET <──────────┘  └──a new leader────────┤
                  ^ └──offset found───────────────────────>│
                  └──out of range, seek to an end or a time┘

`version` grows whenever pending requests or buffered records become invalid, so that late responses
are recognized.
"""

from __future__ import annotations

from enum import Enum

from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.uuids import ZERO_UUID

EARLIEST = -2
LATEST = -1
UNKNOWN = -1


class Phase(Enum):
    NEW = "no position: the group's committed offset is asked for"
    RESET = "an offset is looked up, at an end of the log or at a time"
    VALIDATE = "a new leader is asked whether it knows the same history"
    READY = "records can be fetched"


class PartitionState:
    __slots__ = (
        "failure",
        "fetched",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "offset_epoch",
        "partition",
        "paused",
        "phase",
        "position",
        "preferred_replica",
        "preferred_until",
        "reset_to",
        "rest_until",
        "topic_id",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.phase = Phase.NEW
        self.version = 0
        self.position = UNKNOWN
        self.fetched = UNKNOWN
        self.offset_epoch = UNKNOWN
        """The leader epoch of the record before the position."""
        self.leader_epoch = UNKNOWN
        """The leader epoch with which the position was last validated."""
        self.reset_to: int | None = None
        """A timestamp in ms, EARLIEST or LATEST; None: as `auto_offset_reset` says."""
        self.failure: Exception | None = None
        """The error that stops reading until the application seeks."""
        self.paused = False
        self.preferred_replica = UNKNOWN
        """The follower that the leader told this consumer to read from (KIP-392)."""
        self.preferred_until = 0.0
        self.rest_until = 0.0
        """When to retry after a temporary error."""
        self.topic_id = ZERO_UUID
        """The id of the topic that the position belongs to: a topic that is deleted and created
        again gets another."""
        self.high_watermark = UNKNOWN
        self.last_stable_offset = UNKNOWN
        self.log_start_offset = UNKNOWN

    @property
    def has_position(self) -> bool:
        return self.phase in (Phase.READY, Phase.VALIDATE)

    @property
    def is_readable(self) -> bool:
        """True if there is a valid position to fetch from."""
        return self.phase is Phase.READY and self.failure is None

    def as_committed(self) -> OffsetAndMetadata:
        return OffsetAndMetadata(self.position, "", self.offset_epoch)

    def advance(self, position: int, offset_epoch: int) -> None:
        self.position = position
        self.offset_epoch = offset_epoch

    def seek(self, offset: int, offset_epoch: int = UNKNOWN) -> None:
        """Continue at `offset`; with an epoch, ask the leader first whether it still holds it."""
        self._renew(Phase.READY if offset_epoch < 0 else Phase.VALIDATE)
        self.position = self.fetched = offset
        self.offset_epoch = offset_epoch
        self.leader_epoch = UNKNOWN

    def reset(self, to: int | None = None) -> None:
        self._renew(Phase.RESET)
        self.reset_to = to

    def validate(self) -> None:
        """Validate the position before more is delivered: the new leader's log may differ from what
        the old leader sent."""
        self._renew(Phase.VALIDATE)
        self.fetched = self.position

    def validated(self, leader_epoch: int) -> None:
        self.phase = Phase.READY
        self.leader_epoch = leader_epoch

    def fail(self, failure: Exception) -> None:
        self._renew(self.phase)
        self.failure = failure

    def leave(self) -> None:
        """Note that it is no longer assigned: pending responses become invalid."""
        self._renew(Phase.NEW)

    def _renew(self, phase: Phase) -> None:
        self.version += 1
        self.phase = phase
        self.failure = None
        self.preferred_replica = UNKNOWN
