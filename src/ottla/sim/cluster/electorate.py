"""Who votes in the quorum, as an administrator sees it and changes it: by what the quorum tells."""

from __future__ import annotations

from ottla.client.admin.admin import Admin
from ottla.client.admin.quorum import DescribedQuorum, QuorumMember
from ottla.sim.cluster.dynamic_quorum import LISTENER
from ottla.sim.cluster.shape import CONTROLLER_PORT, Shape


def without_vote(quorum: DescribedQuorum, shape: Shape) -> list[QuorumMember]:
    """Controllers that only follow, each with the folder it was last seen with."""
    controllers = {node.id for node in shape.controllers}
    voters = {voter.node_id for voter in quorum.voters}
    by_id = {
        one.node_id: one
        for one in sorted(quorum.observers, key=lambda one: one.last_fetch_ms or 0)
        if one.node_id in controllers - voters and one.directory_id is not None
    }
    return list(by_id.values())


async def add(admin: Admin, shape: Shape, member: QuorumMember) -> None:
    assert member.directory_id is not None
    host = next(node.host for node in shape.nodes if node.id == member.node_id)
    where = {LISTENER: (host, CONTROLLER_PORT)}
    await admin.add_raft_voter(member.node_id, member.directory_id, where)


async def remove(admin: Admin, member: QuorumMember) -> None:
    assert member.directory_id is not None
    await admin.remove_raft_voter(member.node_id, member.directory_id)


async def add_all(admin: Admin, shape: Shape) -> set[int]:
    """Let every controller vote that follows; those that still do not."""
    for member in without_vote(await admin.describe_metadata_quorum(), shape):
        await add(admin, shape, member)
    voters = {voter.node_id for voter in (await admin.describe_metadata_quorum()).voters}
    return {node.id for node in shape.controllers} - voters
