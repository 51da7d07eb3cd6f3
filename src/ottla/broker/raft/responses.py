"""Processing common to all responses: an epoch, perhaps its leader, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.raft.ids import Endpoint, Endpoints
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def leader_endpoints(replica: Replica, leader_id: int, nodes: Sequence[Any]) -> Endpoints:
    """Return the leader's address in the response, else that in the set of voters."""
    listener = replica.settings.listener
    told = tuple(
        Endpoint(listener, node.host, node.port) for node in nodes if node.node_id == leader_id
    )
    return told or replica.history.voters.endpoints(leader_id)


def learn(
    replica: Replica, error: int, epoch: int, leader_id: int, endpoints: Endpoints
) -> bool | None:
    """Process epoch, leader and error of a response. Returns None if it is of the present epoch and
    its content counts.

    Otherwise it is fully processed: True if its sender may be asked again at once, False after a
    pause.
    """
    quorum = replica.quorum
    if not replica.agrees(epoch, leader_id):
        return False  # it names another leader than this node knows: ignore it
    if epoch < quorum.epoch:
        return False  # its sender is behind, and may have caught up when asked again
    before = quorum.state
    replica.learn(epoch, leader_id, endpoints)
    if quorum.state is not before:
        # Its content still counts for a follower that has just found its leader.
        return None if error == ErrorCode.NONE and epoch == before.election.epoch else True
    return None if error == ErrorCode.NONE else False
