"""Belonging to a group: what the consumer asks of it, whatever the group's protocol.

Joining, giving up partitions and the listener happen only in `attend`, which the consumer calls
while the application waits for records: a record that is being worked on is never pulled away.
Heartbeats go on in the background, so the group knows that this member lives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.metrics import Metrics
from ottla.client.network.cluster import Cluster
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.settings.consumer import ConsumerSettings

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, Exception | None], Awaitable[None] | None]
"""Called with what was to be committed and what went wrong, if anything did."""


class Membership(Protocol):
    needs_attention: bool
    """Read for every record: before more are handed out, `attend` must run."""

    on_commit: Callable[[Offsets], None]
    """Called with whatever has been committed, by hand or not: for interceptors."""

    async def attend(self, deadline: float) -> None:
        """Do what is due: join, reconcile, tell the listener, commit. Raises what the application
        must know. May return early; past the deadline only for a callback of the application."""
        ...

    def polled(self) -> None:
        """The application came for records: max_poll_interval_ms starts anew."""
        ...

    async def commit(self, offsets: Offsets) -> None:
        """Returns when they are committed. Tries again what may pass, until
        default_api_timeout_ms."""
        ...

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """In the order of the calls. The callback runs in a later `attend`, `commit` or `close`."""
        ...

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def group_metadata(self) -> GroupMetadata: ...

    def subscription_changed(self) -> None:
        """After `subscribe` and `assign`, and after `unsubscribe` where `leave` was not called."""
        ...

    async def leave(self) -> None:
        """Before `unsubscribe`: give up all partitions and leave the group."""
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None: ...

    async def close(self, timeout_ms: int) -> None:
        """Auto-commit, tell the listener, leave."""
        ...


def make_membership(
    cluster: Cluster,
    settings: ConsumerSettings,
    subscriptions: Subscriptions,
    wake: Callable[[], None],
    metrics: Metrics,
) -> Membership:
    """`wake` ends a wait for records, so that `attend` is called soon."""
    if settings.group_id is None:
        from ottla.client.consumer.groupless import Groupless

        return Groupless(cluster, settings, subscriptions, wake, metrics)
    if settings.group_protocol == "consumer":
        from ottla.client.consumer.new_protocol import NewProtocolMembership

        return NewProtocolMembership(cluster, settings, subscriptions, wake, metrics)
    from ottla.client.consumer.classic import ClassicMembership

    return ClassicMembership(cluster, settings, subscriptions, wake, metrics)
