"""Admin calls for replicas: reassign partitions to other brokers, and elect leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.admin.partitions import Outcome, by_topic, indexes_by_topic
from ottla.client.network.coordinators import error_of, raise_for
from ottla.client.values import TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

ELECTION_TYPES = {"preferred": 0, "unclean": 1}
ELECTION_TYPES_FROM = 1


class Reassignment(NamedTuple):
    """A partition that is being moved to another set of brokers."""

    replicas: tuple[int, ...]
    """The current replicas: the old ones, and the new ones that have been added so far."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentAdmin:
    _link: AdminLink

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move partitions to brokers, the preferred leader first; None cancels a reassignment.

        >>> await admin.alter_partition_reassignments({TopicPartition("payments", 0): [2, 3]})
        """
        from ottla.protocol.messages.alter_partition_reassignments import (
            AlterPartitionReassignmentsRequest,
            ReassignablePartition,
            ReassignableTopic,
        )

        topics = [
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=None if ids is None else list(ids)
                    )
                    for index, ids in parts.items()
                ],
            )
            for name, parts in by_topic(targets).items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._link.cluster.request_timeout_ms
        )
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, found.partition_index): error_of(
                found.error_code, found.error_message
            )
            for topic in response.responses
            for found in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the ongoing reassignments of these partitions, or of all."""
        from ottla.protocol.messages.list_partition_reassignments import (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsTopics,
        )

        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in indexes_by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._link.cluster.request_timeout_ms
        )
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, found.partition_index): Reassignment(
                tuple(found.replicas), tuple(found.adding_replicas), tuple(found.removing_replicas)
            )
            for topic in response.topics
            for found in topic.partitions
        }

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: Literal["preferred", "unclean"] = "preferred",
    ) -> dict[TopicPartition, KafkaError | None]:
        """Make the preferred replica the leader or, with "unclean", any replica if none is in sync.

        An unclean election loses the records that the new leader does not have. Without
        `partitions`, every partition that needs an election gets one. ELECTION_NOT_NEEDED means
        that the partition already has such a leader.
        """
        wanted = None if partitions is None else indexes_by_topic(partitions)

        def make(connection: Connection) -> Any:
            return _election(
                connection, wanted, election_type, self._link.cluster.request_timeout_ms
            )

        response = await self._link.change(make)
        raise_for(response.error_code)
        return _elected(response)


def _election(
    connection: Connection, wanted: dict[str, list[int]] | None, kind: str, timeout_ms: int
) -> Any:
    from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics = None
    if wanted is not None:
        topics = [TopicPartitions(topic=name, partitions=some) for name, some in wanted.items()]
    request = ElectLeadersRequest(topic_partitions=topics, timeout_ms=timeout_ms)
    if connection.version_of(request) >= ELECTION_TYPES_FROM:
        request.election_type = ELECTION_TYPES[kind]
    elif kind != "preferred":
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "this cluster is too old for unclean elections"
        )
    return request


def _elected(response: Any) -> Outcome:
    return {
        TopicPartition(topic.topic, found.partition_id): error_of(
            found.error_code, found.error_message
        )
        for topic in response.replica_election_results
        for found in topic.partition_result
    }
