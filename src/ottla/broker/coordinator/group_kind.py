"""Kinds of groups: what a shard must know to host groups of a kind, and nothing else does.

A new kind is a folder beside `classic/` and `consumer/` with a state class (see `group.Group`), the
functions that change it, and a `KIND` that is listed in `group_kinds.py`. Its record types are
listed in `record_codec.py`, its settings in `group_settings.py`. Requests that only this kind has,
as ConsumerGroupHeartbeat, are functions on a `Host` that its handlers call; requests that concern
every kind (JoinGroup and its like, offsets, listing, deletion) pass through the shard.

So share groups (KIP-932) serve no classic protocol, refuse commits and fetches of offsets with
GROUP_ID_NOT_FOUND and never expire (`offset_idle_since_ms` is None); they order the state of their
partitions from another coordinator by replies, as a transaction shard orders its markers. Streams
groups (KIP-1071) check commits by member epochs, as consumer groups do. A JoinGroup that takes over
an empty group of another kind sets its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.group import Group
from ottla.broker.coordinator.group_settings import GroupShardSettings
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.schema import Message

G = TypeVar("G")
R = TypeVar("R")

Serve: TypeAlias = Callable[[G, R, Any, Now, Outbox], None]
"""(group, request, token, now, outbox)"""


class Host(Protocol):
    """The shard, as functions of a kind see it. They change `groups` only when nothing can fail any
    more."""

    groups: dict[str, Group]

    @property
    def settings(self) -> GroupShardSettings: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def random(self) -> Random: ...


@dataclass(frozen=True, slots=True)
class ClassicProtocol(Generic[G]):
    """The requests of members that use the classic protocol."""

    join: Callable[[G, JoinGroupRequest, Client, Any, Now, Outbox], None]
    sync: Serve[G, SyncGroupRequest]
    heartbeat: Serve[G, HeartbeatRequest]
    leave: Serve[G, LeaveGroupRequest]


@dataclass(frozen=True, slots=True)
class GroupKind(Generic[G]):
    name: str
    """The name that tools use, in lower case; also the first element of all timer keys, before the
    group id."""
    record_keys: tuple[type[Message], ...]
    """The keys of all its records."""
    create: Callable[[Host, str], G]
    """Return an empty group of this id, which is not hosted yet."""
    replay: Callable[[Host, Any, Any], None]
    """Replay a record by key and value: add, change or remove its group."""
    loaded: Callable[[G, Now, Outbox], None]
    """All records have been replayed: start the timers."""
    timer_fired: Callable[[G, Any, Now, Outbox], None]
    delete: Callable[[G, Now, Outbox], None]
    """Write tombstones for its own records (not the offsets) and cancel its timers."""
    offsets_committed: Callable[[G, str, Now, Outbox], None] | None = None
    """A member's commit was accepted; None if that is no sign of life."""
    classic_protocol: ClassicProtocol[G] | None = None
    """None if members cannot use the classic protocol."""
    value_versions: Mapping[type[Message], int] = field(default_factory=dict)
    """Versions of values that are written in another version than the newest."""


class GroupKinds:
    """All kinds that a shard can host."""

    def __init__(self, *kinds: GroupKind[Any]) -> None:
        self.by_name = {kind.name: kind for kind in kinds}
        self.by_key = {key: kind for kind in kinds for key in kind.record_keys}
        self.value_versions = {
            value: version for kind in kinds for value, version in kind.value_versions.items()
        }
        self.default = kinds[0]
        """The kind of groups that JoinGroup and OffsetCommit create."""
