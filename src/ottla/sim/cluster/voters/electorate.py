"""The voters of the quorum as an administrator sees and changes them, who knows the directory ids
of the controllers."""

from __future__ import annotations

from ottla.client.admin.admin import Admin
from ottla.client.admin.quorum import DescribedQuorum, QuorumMember
from ottla.sim.cluster.metadata_folders import LISTENER, MetadataFolders
from ottla.sim.cluster.shape import CONTROLLER_PORT, Shape


class Electorate:
    def __init__(self, admin: Admin, shape: Shape, folders: MetadataFolders) -> None:
        self._admin = admin
        self._shape = shape
        self._folders = folders

    async def look(self) -> DescribedQuorum:
        return await self._admin.describe_metadata_quorum()

    def without_vote(self, quorum: DescribedQuorum) -> list[int]:
        voters = {voter.node_id for voter in quorum.voters}
        return [node.id for node in self._shape.controllers if node.id not in voters]

    async def add(self, node_id: int) -> None:
        host = next(node.host for node in self._shape.nodes if node.id == node_id)
        where = {LISTENER: (host, CONTROLLER_PORT)}
        await self._admin.add_raft_voter(node_id, self._folders.id_of(node_id), where)

    async def remove(self, voter: QuorumMember) -> None:
        assert voter.directory_id is not None
        await self._admin.remove_raft_voter(voter.node_id, voter.directory_id)

    def with_lost_disk(self, quorum: DescribedQuorum) -> list[QuorumMember]:
        ids = self._folders.id_of
        return [voter for voter in quorum.voters if voter.directory_id != ids(voter.node_id)]

    async def put_right(self) -> list[int]:
        """Make every controller a voter and remove voters whose disk is gone. Return the ids for
        which that has not succeeded yet."""
        for voter in self.with_lost_disk(await self.look()):
            await self.remove(voter)
        for node_id in self.without_vote(await self.look()):
            await self.add(node_id)
        quorum = await self.look()
        lost = [voter.node_id for voter in self.with_lost_disk(quorum)]
        return lost + self.without_vote(quorum)
