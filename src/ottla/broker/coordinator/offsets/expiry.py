"""Offsets expire when the group has been empty, or has not read the topic, for the retention
time."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.coordinator.offsets.store import (
    NO_EXPIRY,
    CommittedOffset,
    OffsetStore,
    partitions_of,
)
from ottla.broker.coordinator.outbox import Now, Outbox


def expire(
    store: OffsetStore,
    group_id: str,
    *,
    is_subscribed: Callable[[str], bool],
    unused_since_ms: Callable[[CommittedOffset], int],
    retention_ms: int,
    now: Now,
    outbox: Outbox,
) -> bool:
    """Delete the expired offsets of a group; True if none are left.

    `unused_since_ms` returns the time from which an offset's retention counts, which depends on the
    group.
    """
    nothing_left = True
    for topic, partition in partitions_of(store.group(group_id)):
        offset = store.group(group_id)[topic][partition]
        if (
            is_subscribed(topic)
            or not _is_over(offset, unused_since_ms, retention_ms, now)
            or store.is_pending(group_id, topic, partition)
        ):
            nothing_left = False
        else:
            store.remove(group_id, topic, partition, outbox)
    return nothing_left and not store.has_open_transactions(group_id)


def _is_over(
    offset: CommittedOffset,
    unused_since_ms: Callable[[CommittedOffset], int],
    retention_ms: int,
    now: Now,
) -> bool:
    if offset.expire_ms != NO_EXPIRY:
        return now.wall_ms >= offset.expire_ms
    return now.wall_ms - unused_since_ms(offset) >= retention_ms
