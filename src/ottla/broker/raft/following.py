"""A follower's processing of Fetch responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import responses, wire
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.broker.raft.log_view import EMPTY_LOG, InvalidRecords, has
from ottla.broker.raft.states.follower import Follower, SnapshotFetch
from ottla.protocol.messages.fetch import FetchResponse, PartitionData

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def fetched(replica: Replica, response: FetchResponse) -> bool:
    """Process a response; True if the leader may be asked again at once."""
    partition = wire.only_partition(response.responses)
    if response.error_code or partition is None:
        return False
    told = partition.current_leader
    handled = responses.learn(
        replica,
        partition.error_code,
        told.leader_epoch,
        told.leader_id,
        responses.leader_endpoints(replica, told.leader_id, response.node_endpoints),
    )
    follower = replica.follower
    if handled is not None or follower is None:
        return bool(handled)
    if not _take(replica, follower, partition):
        return False
    follower.fetch_succeeded(replica.now_ms, replica.settings.fetch_timeout_ms)
    return True


def _take(replica: Replica, follower: Follower, partition: PartitionData) -> bool:
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if diverging.epoch >= 0:
        _truncate(replica, OffsetAndEpoch(diverging.end_offset, diverging.epoch))
        return True
    if snapshot.epoch >= 0 or snapshot.end_offset >= 0:
        return _begin_snapshot(
            replica, follower, OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
        )
    if partition.records:
        try:
            replica.log.append_fetched(partition.records)
        except InvalidRecords:
            return False
        replica.log_grew()
    if partition.high_watermark >= 0:
        replica.committed(partition.high_watermark)
    return True


def refused(replica: Replica, node_id: int) -> None:
    """Shorten the wait for a leader whose process is dead: nothing listens at its address. A short
    wait remains, because the others have to notice as well, and not all should stand at the same
    time.

    This is done only once after a successful fetch: if only this node sees it so, the others do not
    elect it, and then it waits for the fetch timeout as usual.
    """
    follower = replica.follower
    if follower is None or follower.leader_id != node_id or not follower.has_fetched:
        return
    follower.has_fetched = False
    follower.is_refused = True
    if replica.quorum.may_stand:
        wait_ms = replica.quorum.random_backoff_ms()
        follower.fetch_until_ms = min(follower.fetch_until_ms, replica.now_ms + wait_ms)


def _truncate(replica: Replica, common: OffsetAndEpoch) -> None:
    """Truncate to the end of the last epoch that both logs have, as far as they can agree on it."""
    mine = replica.log.end_offset_for_epoch(common.epoch)
    if common.epoch == EMPTY_LOG.epoch:
        offset = min(common.offset, replica.log.end.offset)
    elif mine.epoch == common.epoch:
        offset = min(common.offset, mine.offset)
    else:
        offset = mine.offset
    replica.truncate(offset)


def _begin_snapshot(replica: Replica, follower: Follower, snapshot: OffsetAndEpoch) -> bool:
    """Start to fetch a snapshot, because the leader no longer has the next records."""
    if snapshot.epoch < 0 or snapshot.offset <= 0:
        return False
    if has(replica.log, snapshot):
        return False  # the answer was to an older request
    if follower.fetching is None:  # otherwise the parts already here would be fetched again
        follower.fetching = SnapshotFetch(snapshot)
    return True
