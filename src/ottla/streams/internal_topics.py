"""Prepares topics before a start: sources must exist, internal topics are created."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.blocking import Admin
from ottla.client.errors import ClientError
from ottla.client.network.metadata import Topic
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.client_options import admin_options
from ottla.spark.first_contact import check_reachable
from ottla.streams.errors import StreamsError, TopicsMissing
from ottla.streams.plan import InternalTopic, Plan
from ottla.streams.plan.plan import origins, working_node
from ottla.streams.settings import Settings
from ottla.streams.topology import Node, Topology
from ottla.streams.topology.ends import Source

_REPARTITION = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",  # kept until read: the application deletes what it has processed
    "message.timestamp.type": "CreateTime",
}
_CHANGELOG = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def prepare(settings: Settings, topology: Topology, plan: Plan) -> None:
    check_reachable(settings.to_spark())
    with Admin(**admin_options(settings.to_spark())) as admin:
        counts = _partitions_of_sources(admin, topology, settings.bootstrap_servers)
        for topic in plan.internal_topics:
            count = topic.partitions or _count(topic.node, counts)
            counts[topic.name] = _made(admin, topic, count)


def _partitions_of_sources(admin: Admin, topology: Topology, servers: str) -> dict[str, int]:
    names = topology.sources()
    found = admin.describe_topics(names)
    own = set(topology.sinks())  # created by the first write, if the cluster allows that
    missing = [name for name in names if not isinstance(found.get(name), Topic)]
    if wanted := [name for name in missing if name not in own]:
        raise TopicsMissing(wanted, servers)
    return {name: len(one.partitions) for name, one in found.items() if isinstance(one, Topic)}


def _count(node: Node, counts: Mapping[str, int]) -> int:
    """Return the partition count of the largest topic that leads there, as Kafka Streams does."""
    numbers = [1]
    for origin in origins(node.parents[0] if node.operation.starts else node):
        if isinstance(origin.operation, Source):
            numbers += [counts.get(topic, 1) for topic in origin.operation.topics]
        elif origin.operation.stateful:
            numbers += [_count_at(parent, counts) for parent in working_node(origin).parents]
        else:
            numbers.append(_count(origin, counts))
    return max(numbers)


def _count_at(node: Node, counts: Mapping[str, int]) -> int:
    operation = node.operation
    if isinstance(operation, Source):
        return max(counts.get(topic, 1) for topic in operation.topics)
    return _count(node, counts)


def _made(admin: Admin, topic: InternalTopic, partitions: int) -> int:
    """Create the topic if it is missing; return its partition count."""
    configs = _CHANGELOG if topic.compacted else _REPARTITION
    try:
        admin.create_topic(topic.name, partitions=partitions, configs=configs)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise StreamsError(
                f"the internal topic {topic.name} cannot be made: {error}"
            ) from error
        return len(admin.describe_topic(topic.name).partitions)
    except ClientError as error:
        raise StreamsError(f"the internal topic {topic.name} cannot be made: {error}") from error
    return partitions
