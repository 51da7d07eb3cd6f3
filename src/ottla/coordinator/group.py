"""What the shard asks of a group, whatever its protocol."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode


class Group(Protocol):
    """`ClassicGroup` and `ConsumerGroup`. Timer keys are tuples: ("classic" or "consumer", group
    id, ...). A consumer group has a `validate_offset_fetch(member_id, epoch) -> ErrorCode | None`
    besides."""

    group_id: str
    protocol_type: str | None
    """`consumer` for all groups of consumers; None if no member ever joined."""

    @property
    def state(self) -> Enum:
        """Its value is the name that tools show."""
        ...

    @property
    def is_empty(self) -> bool: ...

    def validate_delete(self) -> ErrorCode | None: ...

    def delete(self, now: Now, outbox: Outbox) -> None:
        """Tombstones for all of its own records (not the offsets); no timer stays set."""
        ...

    def timer_fired(self, key: Any, now: Now, outbox: Outbox) -> None: ...

    def loaded(self, now: Now, outbox: Outbox) -> None: ...

    # Offsets

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
    ) -> ErrorCode | None: ...

    def offsets_committed(self, member_id: str, now: Now, outbox: Outbox) -> None:
        """A member's commit was taken: for classic members that is a sign of life."""
        ...

    def validate_offset_delete(self) -> ErrorCode | None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        """From when on the retention of an offset committed at `committed_ms` counts, by the wall
        clock; None while none may expire."""
        ...
