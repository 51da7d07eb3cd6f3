"""The interface between the consumer and its group, for both group protocols.

Joining, giving up partitions and the listener run only in `attend`, which the consumer calls while
the application waits for records, so a record that is being processed never loses its partition.
Heartbeats go on in the background, so the group knows that this member is alive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.cluster import Cluster
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.counters import MetricRegistry

if TYPE_CHECKING:
    from ottla.client.consumer.groups.group_protocol import GroupProtocol, MemberParts
    from ottla.client.settings.consumer import ConsumerSettings

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, Exception | None], Awaitable[None] | None]
"""Called with the offsets to commit, and with the error or None."""


class Attention:
    """Tells the consumer that `attend` must run before more records are delivered."""

    __slots__ = ("_wake", "needed")

    def __init__(self, wake: Callable[[], None], *, needed: bool) -> None:
        """`wake` ends a wait for records, so that `attend` runs soon."""
        self._wake = wake
        self.needed = needed
        """Read for every record."""

    def request(self) -> None:
        self.needed = True
        self._wake()


class Membership(Protocol):
    attention: Attention

    on_commit: Callable[[Offsets], None]
    """Called after every commit, automatic or not, for the interceptors."""

    async def attend(self, deadline: float) -> None:
        """Do what is due: join, reconcile, call the listener, commit. Raises errors for the
        application. May return early; only a callback of the application makes it exceed the
        deadline."""
        ...

    def polled(self) -> None:
        """Note a poll of the application: max_poll_interval_ms starts again."""
        ...

    async def commit(self, offsets: Offsets) -> None:
        """Return when the offsets are committed. Temporary errors are retried until
        default_api_timeout_ms."""
        ...

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Commit in the background, in the order of the calls. The callback runs in a later
        `attend`, `commit` or `close`."""
        ...

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def group_metadata(self) -> GroupMetadata: ...

    def subscription_changed(self) -> None:
        """Called after `subscribe` and `assign`, and after `unsubscribe` without `leave`."""
        ...

    async def leave(self) -> None:
        """Called before `unsubscribe`: give up all partitions and leave the group."""
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None: ...

    async def close(self, timeout_ms: int) -> None:
        """Auto-commit, call the listener, leave the group."""
        ...


def make_membership(
    cluster: Cluster,
    settings: ConsumerSettings,
    subscriptions: Subscriptions,
    wake: Callable[[], None],
    metrics: MetricRegistry,
) -> Membership:
    """Return the membership. `wake` ends a wait for records, so that `attend` runs soon."""
    if settings.group_id is None:
        from ottla.client.consumer.groups.groupless import Groupless

        attention = Attention(wake, needed=False)
        return Groupless(cluster, settings, subscriptions, attention, metrics)
    from ottla.client.consumer.groups.group_membership import GroupMembership

    make: Callable[[MemberParts], GroupProtocol]
    if settings.group_protocol == "consumer":
        from ottla.client.consumer.groups.new_protocol.protocol import NewProtocol

        make = NewProtocol
    else:
        from ottla.client.consumer.groups.classic.protocol import ClassicProtocol

        make = ClassicProtocol
    attention = Attention(wake, needed=True)
    return GroupMembership(cluster, settings, subscriptions, attention, metrics, make)
