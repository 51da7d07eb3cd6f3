"""The interface of a group to its shard, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias

from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode

PartitionCheck: TypeAlias = Callable[[str, bytes, int], ErrorCode | None]
"""(topic name, topic id, partition) -> why the member may not commit it; None if it may."""


class Group(Protocol):
    """The view that the shard has of a group. The functions that change a group belong to its kind
    (`group_kind.GroupKind`)."""

    group_id: str
    protocol_type: str | None
    """`consumer` for all groups of consumers; None if no member ever joined."""
    image: MetadataImage
    """The newest metadata; the shard sets it before each request and timer."""

    @property
    def kind(self) -> str:
        """The name of its kind."""
        ...

    @property
    def state(self) -> Enum:
        """The state; its value is the name that tools show."""
        ...

    @property
    def is_empty(self) -> bool: ...

    @property
    def successor(self) -> Group | None:
        """The group that takes its place, set by a join, leave or timer that changes its kind."""
        ...

    def validate_delete(self) -> ErrorCode | None: ...

    # Offsets

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        api_version: int,
        transactional: bool,
    ) -> PartitionCheck | None:
        """Raise `KafkaError` if nothing may be committed. Return a check if only some partitions
        may."""
        ...

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """GROUP_ID_NOT_FOUND means that such a group has no offsets."""
        ...

    def validate_offset_delete(self) -> ErrorCode | None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        """Return the wall-clock time from which the retention of an offset committed at
        `committed_ms` counts; None while neither offsets nor the group can expire. Offsets of
        subscribed topics never expire."""
        ...
