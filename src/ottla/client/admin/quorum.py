"""Admin calls for the metadata quorum: describe it, and add or remove voters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import raise_for
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.protocol.uuids import ZERO_UUID, from_text, to_text

METADATA_TOPIC = "__cluster_metadata"


class QuorumMember(NamedTuple):
    node_id: int
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    directory_id: str | None = None
    """The directory id of its metadata log, if the cluster reports it. It identifies a voter even
    if another node has taken its id."""


class DescribedQuorum(NamedTuple):
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    nodes: Mapping[int, Mapping[str, tuple[str, int]]] = {}
    """The voters' addresses by listener name, if the cluster reports them."""

    def lag_of(self, member: QuorumMember) -> int:
        """Return how many offsets of the leader's log a member does not have yet."""
        end = next((v.log_end_offset for v in self.voters if v.node_id == self.leader), 0)
        return max(0, end - member.log_end_offset)


class QuorumAdmin:
    _link: AdminLink

    async def describe_metadata_quorum(self) -> DescribedQuorum:
        """Describe the metadata log: leader, voters, observers, and how far each has come."""

        async def attempt() -> DescribedQuorum:
            connection = await self._link.cluster.any_broker()
            return described(await connection.request(describe_request()))

        return await self._link.cluster.retrying(attempt)

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: str,
        endpoints: Mapping[str, tuple[str, int]],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller that follows the metadata log a voter. `directory_id` is that of its
        metadata log (`ottla storage info` shows it); `endpoints` are its controller listeners.

        >>> await admin.add_raft_voter(4, "kXSyEMBiQkKj0yEAzPXpRg", {"CONTROLLER": ("host4", 9093)})
        """
        from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener

        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._link.cluster.request_timeout_ms,
            voter_id=voter_id,
            voter_directory_id=_directory(directory_id),
            listeners=[
                Listener(name=name, host=host, port=port)
                for name, (host, port) in endpoints.items()
            ],
        )
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code, response.error_message)

    async def remove_raft_voter(
        self, voter_id: int, directory_id: str, *, cluster_id: str | None = None
    ) -> None:
        """Remove a controller from the voters. Stop it only after this call succeeds: it counts for
        the majority until then."""
        from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=voter_id,
            voter_directory_id=_directory(directory_id),
        )
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code, response.error_message)


def _directory(text: str) -> bytes:
    try:
        return from_text(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"directory id: {error}") from error


def describe_request() -> Message:
    from ottla.protocol.messages.describe_quorum import (
        DescribeQuorumRequest,
        RequestPartitionData,
        RequestTopicData,
    )

    log = RequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)]
    )
    return DescribeQuorumRequest(topics=[log])


def described(response: Any) -> DescribedQuorum:
    """Return the quorum that the response describes, or raise its error."""
    raise_for(response.error_code, response.error_message)
    found = response.topics[0].partitions[0]
    raise_for(found.error_code, found.error_message)
    return DescribedQuorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(map(_member, found.current_voters)),
        tuple(map(_member, found.observers)),
        {
            node.node_id: {one.name: (one.host, one.port) for one in node.listeners}
            for node in response.nodes
        },
    )


def _member(found: Any) -> QuorumMember:
    directory = found.replica_directory_id
    return QuorumMember(
        found.replica_id,
        found.log_end_offset,
        found.last_fetch_timestamp if found.last_fetch_timestamp >= 0 else None,
        found.last_caught_up_timestamp if found.last_caught_up_timestamp >= 0 else None,
        None if directory == ZERO_UUID else to_text(directory),
    )
