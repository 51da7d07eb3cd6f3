"""Offsets end when their group has been gone, or has not read the topic, for the retention time."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.offsets.store import NO_EXPIRY, CommittedOffset, OffsetStore, partitions_of
from ottla.coordinator.outbox import Now, Outbox


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
    """Drop the expired offsets of a group; True if nothing of it is left.

    `unused_since_ms` says from when the time of an offset runs: it depends on the group.
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
