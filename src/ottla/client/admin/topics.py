"""Admin calls for topics: list, describe, create and delete them, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client.admin.link import AdminLink
from ottla.client.errors import TopicMissing, UnsupportedVersion
from ottla.client.network.coordinators import error_of
from ottla.client.network.metadata import Topic
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster
    from ottla.network.connection import Connection

SERVER_DEFAULT = -1
"""Use the broker's default (num.partitions, default.replication.factor)."""

TOPIC_STATES_FROM = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. With `assignments` (partition to brokers), leave the two counts unset."""

    name: str
    partitions: int = SERVER_DEFAULT
    replication_factor: int = SERVER_DEFAULT
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the cluster created it; None for what an old cluster does not report."""

    name: str
    topic_id: bytes | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class EligibleLeaders:
    """The replicas that may lead a partition although they are not in sync (KIP-966)."""

    eligible: tuple[int, ...]
    """The ELR: they have all committed records. The first live one leads if the ISR is empty."""
    last_known: tuple[int, ...]
    """The last known ELR, while there is no leader: wait for these if `eligible` is empty."""


class TopicAdmin:
    _link: AdminLink

    # Listing

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with `internal`, internal topics too."""
        found = await self.describe_topics()
        return [
            name
            for name, topic in found.items()
            if isinstance(topic, KafkaError) or internal or not topic.internal
        ]

    async def describe_topics(
        self, names: Iterable[str] | None = None
    ) -> dict[str, Topic | KafkaError]:
        """Describe the named topics, or all: partitions, leaders, replicas and ISR.

        >>> topics = await admin.describe_topics(["payments"])
        >>> [partition.leader for partition in topics["payments"].partitions]
        """
        return await describe_topics(self._link.cluster, names)

    async def describe_topic(self, name: str) -> Topic:
        """Describe one topic. Raises `TopicMissing` if it does not exist."""
        found = (await self.describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicMissing(name)
            raise found
        return found

    async def describe_eligible_leaders(
        self, names: Iterable[str] | None = None
    ) -> dict[TopicPartition, EligibleLeaders]:
        """Return the partitions of the named topics, or of all, that have eligible leader replicas
        or last known ones. Empty if the cluster does not report them.

        >>> waiting = await admin.describe_eligible_leaders(["payments"])
        """
        from ottla.protocol.messages.describe_topic_partitions import (
            DescribeTopicPartitionsRequest,
            TopicRequest,
        )

        wanted = [TopicRequest(name=name) for name in names or ()]
        request = DescribeTopicPartitionsRequest(topics=wanted)
        found: dict[TopicPartition, EligibleLeaders] = {}
        while names is None or wanted:
            try:
                response = await self._link.ask_any(request)
            except UnsupportedVersion:
                return {}
            for topic in response.topics:
                for part in topic.partitions:
                    eligible = tuple(part.eligible_leader_replicas or ())
                    last_known = tuple(part.last_known_elr or ())
                    if eligible or last_known:
                        where = TopicPartition(topic.name, part.partition_index)
                        found[where] = EligibleLeaders(eligible, last_known)
            if response.next_cursor is None:
                break
            request.cursor = response.next_cursor
            request.topics = [one for one in wanted if one.name >= request.cursor.topic_name]
        return found

    # Changes

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with individual settings; a plain name takes the broker's defaults.

        >>> await admin.create_topics([NewTopic("payments", partitions=6), "clicks"])
        """
        from ottla.protocol.messages.create_topics import CreateTopicsRequest

        wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=self._link.cluster.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._link.change(lambda _: request)
        found = {
            result.name: error_of(result.error_code, result.error_message) or _created(result)
            for result in response.topics
        }
        return {topic.name: found[topic.name] for topic in wanted}

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = SERVER_DEFAULT,
        replication_factor: int = SERVER_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create one topic, or raise its error.

        >>> await admin.create_topic("payments", partitions=6, configs={"retention.ms": "86400000"})
        """
        topic = NewTopic(name, partitions, replication_factor, assignments, configs)
        made = (await self.create_topics([topic], validate_only=validate_only))[name]
        if isinstance(made, KafkaError):
            raise made
        return made

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records, and return an error or None for each."""
        from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        wanted = list(dict.fromkeys(names))

        def request(connection: Connection) -> DeleteTopicsRequest:
            request = DeleteTopicsRequest(timeout_ms=self._link.cluster.request_timeout_ms)
            if connection.version_of(request) >= TOPIC_STATES_FROM:
                request.topics = [DeleteTopicState(name=name) for name in wanted]
            else:
                request.topic_names = wanted
            return request

        response = await self._link.change(request)
        found = {
            result.name: error_of(result.error_code, result.error_message)
            for result in response.responses
        }
        return {name: found[name] for name in wanted}

    async def delete_topic(self, name: str) -> None:
        """Delete one topic. Raises `TopicMissing` if it does not exist."""
        error = (await self.delete_topics([name]))[name]
        if error is not None:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicMissing(name)
            raise error

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `count` partitions; `assignments` lists the brokers of each new one.

        This moves keys to other partitions and cannot be undone.
        """
        from ottla.protocol.messages.create_partitions import (
            CreatePartitionsAssignment,
            CreatePartitionsRequest,
            CreatePartitionsTopic,
        )

        placed = None
        if assignments is not None:
            placed = [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments]
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=placed)],
            timeout_ms=self._link.cluster.request_timeout_ms,
            validate_only=validate_only,
        )
        (result,) = (await self._link.change(lambda _: request)).results
        if error := error_of(result.error_code, result.error_message):
            raise error


async def describe_topics(
    cluster: Cluster, names: Iterable[str] | None
) -> dict[str, Topic | KafkaError]:
    wanted = None if names is None else list(names)
    view = await cluster.retrying(lambda: cluster.refresh(wanted))
    return {name: _described(topic) for name, topic in sorted(view.topics.items())}


def _described(topic: Topic) -> Topic | KafkaError:
    if code := ErrorCode.of(topic.error_code):
        return KafkaError(code, f"topic {topic.name!r}: {code.message}")
    return topic


def _creatable(topic: NewTopic) -> Any:
    from ottla.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
    )

    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value)
            for key, value in (topic.configs or {}).items()
        ],
    )


def _created(result: Any) -> CreatedTopic:
    return CreatedTopic(
        result.name,
        result.topic_id if result.topic_id not in (None, ZERO_UUID) else None,
        result.num_partitions if result.num_partitions >= 0 else None,
        result.replication_factor if result.replication_factor >= 0 else None,
    )
