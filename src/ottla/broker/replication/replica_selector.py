"""The replica that a consumer should read from (KIP-392): one in its own rack, if that is in
sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.partition import Partition

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NO_PREFERENCE: Final = -1


def preferred_replica(partition: Partition, view: ClusterView, rack: str, offset: int) -> int:
    """Return the follower to which a reader in `rack` at `offset` is sent; -1 to serve it here.

    It is the most advanced of those in the rack, among the ones that have the offset.
    """
    leading = partition.leading
    if not rack or leading is None:
        return NO_PREFERENCE
    own = view.broker(view.node_id)
    if own is not None and own.rack == rack:
        return NO_PREFERENCE
    best, best_place = NO_PREFERENCE, (-1, 0)
    for follower in leading.followers.values():
        broker = view.broker(follower.id)
        if broker is None or broker.fenced or broker.rack != rack:
            continue
        if follower.id not in leading.isr:
            continue
        if not follower.log_start_offset <= offset <= follower.end_offset:
            continue
        place = (follower.end_offset, follower.caught_up_ms)
        if place > best_place:
            best, best_place = follower.id, place
    return best
