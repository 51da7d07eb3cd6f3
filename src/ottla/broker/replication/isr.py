"""A leader's part in its ISR: it proposes who joins and who leaves, and takes the outcome.

`leader_state.py` decides; these functions give it the partition's state, and the proposals to the
controller (`isr_changes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition


def expand(partition: Partition, follower_id: int) -> None:
    """Propose that this follower joins, if it may."""
    view, leading = partition.view, partition.leading
    if view is None or leading is None or follower_id in leading.maximal_isr:
        return
    proposal = leading.propose_expansion(
        follower_id, partition.high_watermark, view.broker_epoch(), view.is_eligible
    )
    if proposal is not None:
        view.propose(partition, proposal)


def expand_by_waiting(partition: Partition) -> None:
    """Propose a follower that could not be proposed before, or whose proposal was dropped: without
    new records it may not fetch again for a long time."""
    leading, view, log = partition.leading, partition.view, partition.log
    if leading is None or view is None or log is None or partition.error is not None:
        return
    for follower_id in leading.waiting_to_join(log.end_offset, view.now_ms(), view.lag_max_ms):
        expand(partition, follower_id)


def shrink(partition: Partition, now_ms: int) -> None:
    """Propose an ISR without the followers that have been behind for too long."""
    view, leading, log = partition.view, partition.leading, partition.log
    if view is None or leading is None or log is None or partition.error is not None:
        return
    proposal = leading.propose_shrinking(
        log.end_offset, now_ms, view.lag_max_ms, view.broker_epoch()
    )
    if proposal is not None:
        view.propose(partition, proposal)
    review(partition)


def review(partition: Partition) -> None:
    """Update the high watermark and the ISR: a follower that held it back may no longer count, or
    may join now."""
    if partition.leading is None or partition.log is None or partition.error is not None:
        return
    partition.update_high_watermark()
    expand_by_waiting(partition)


def accepted(partition: Partition) -> None:
    """Take the ISR that the controller has accepted."""
    if partition.leading is not None:
        partition.isr = partition.leading.isr
    review(partition)


def refused(partition: Partition) -> None:
    """Take the ISR after the controller has refused a proposal. No follower is proposed again at
    once: newer metadata will come."""
    if partition.leading is not None:
        partition.isr = partition.leading.isr
        if partition.log is not None and partition.error is None:
            partition.update_high_watermark()
