"""Planted: voters are changed again before the change before it is committed."""

import pytest

from ottla.broker.raft.ids import ReplicaKey
from ottla.broker.raft.replica import Replica
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters import changes as voter_changes
from ottla.protocol.errors import ErrorCode


def plant(patch: pytest.MonkeyPatch) -> None:
    refuse = voter_changes._refuse_change

    def hasty(
        replica: Replica, cluster_id: str | None, key: ReplicaKey
    ) -> voter_changes.Refusal | None:
        refusal = refuse(replica, cluster_id, key)
        leader = replica.quorum.state
        is_early = refusal is not None and refusal[0] == ErrorCode.REQUEST_TIMED_OUT
        if is_early and isinstance(leader, Leader) and leader.high_watermark is not None:
            voter_changes.conclude(replica, leader, ErrorCode.REQUEST_TIMED_OUT)
            return None
        return refusal

    patch.setattr(voter_changes, "_refuse_change", hasty)
