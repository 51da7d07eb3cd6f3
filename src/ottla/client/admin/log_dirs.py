"""Admin calls for the log directories of brokers: what they hold, and moving replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.admin.partitions import indexes_by_topic
from ottla.client.network.coordinators import error_of, raise_for
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.network.connection import Connection

ERROR_FROM = 3


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a partition in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    """How far it is behind the high watermark or, for a future replica, the current replica."""
    is_future: bool
    """True if it is being moved here and replaces the current replica in the end."""


@dataclass(frozen=True, slots=True)
class LogDir:
    broker: int
    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[Replica, ...]


class ReplicaOf(NamedTuple):
    """Names the replica of a partition on one broker."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class ReplicaLogDirs:
    """The log directory of a replica on one broker, and the one it is moving to, if any."""

    current: str | None
    offset_lag: int
    future: str | None
    future_offset_lag: int
    """How far the future replica is behind the current one; -1 if there is none."""


class LogDirAdmin:
    _link: AdminLink

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> list[LogDir]:
        """Return the log directories of all or the given brokers, with their replicas, or with
        those of `partitions`."""
        from ottla.protocol.messages.describe_log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
        )

        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in indexes_by_topic(partitions).items()
            ]

        async def ask(node_id: int) -> list[LogDir]:
            connection = await self._link.cluster.broker(node_id)
            request = DescribeLogDirsRequest(topics=topics)
            response = await connection.request(request)
            if connection.version_of(request) >= ERROR_FROM:
                raise_for(response.error_code)
            return [_log_dir(node_id, result) for result in response.results]

        return await self._link.ask_each_broker(ask, brokers)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[ReplicaOf]
    ) -> dict[ReplicaOf, ReplicaLogDirs]:
        """Return the log directories of these replicas; None where the broker has no replica."""
        wanted = list(replicas)
        partitions = {TopicPartition(one.topic, one.partition) for one in wanted}
        brokers = sorted({one.broker for one in wanted})
        found = dict.fromkeys(wanted, ReplicaLogDirs(None, -1, None, -1))
        if not brokers:
            return found
        for folder in await self.describe_log_dirs(brokers, partitions=partitions):
            for replica in folder.replicas:
                one = ReplicaOf(replica.topic, replica.partition, folder.broker)
                if one in found:
                    found[one] = _with_folder(found[one], folder.path, replica)
        return found

    async def alter_replica_log_dirs(
        self, moves: Mapping[ReplicaOf, str]
    ) -> dict[ReplicaOf, KafkaError | None]:
        """Move replicas to the given log directories, in the background (see `is_future`)."""
        outcome: dict[ReplicaOf, KafkaError | None] = {}
        await self._link.cluster.retrying(lambda: self._link.cluster.refresh(()))
        for node_id in sorted({one.broker for one in moves}):
            own = {one: path for one, path in moves.items() if one.broker == node_id}
            outcome |= await _move(await self._link.cluster.broker(node_id), node_id, own)
        return outcome


async def _move(
    connection: Connection, node_id: int, moves: Mapping[ReplicaOf, str]
) -> dict[ReplicaOf, KafkaError | None]:
    from ottla.protocol.messages.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    by_path: dict[str, list[TopicPartition]] = {}
    for one, path in moves.items():
        by_path.setdefault(path, []).append(TopicPartition(one.topic, one.partition))
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=indexes)
                    for name, indexes in indexes_by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )
    response = await connection.request(request)
    return {
        ReplicaOf(topic.topic_name, found.partition_index, node_id): error_of(found.error_code)
        for topic in response.results
        for found in topic.partitions
    }


def _with_folder(known: ReplicaLogDirs, path: str, replica: Replica) -> ReplicaLogDirs:
    if replica.is_future:
        return dataclasses.replace(known, future=path, future_offset_lag=replica.offset_lag)
    return dataclasses.replace(known, current=path, offset_lag=replica.offset_lag)


def _log_dir(node_id: int, result: Any) -> LogDir:
    replicas = [
        Replica(
            topic.name,
            partition.partition_index,
            partition.partition_size,
            partition.offset_lag,
            partition.is_future_key,
        )
        for topic in result.topics
        for partition in topic.partitions
    ]
    return LogDir(
        node_id,
        result.log_dir,
        error_of(result.error_code),
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        tuple(sorted(replicas, key=lambda replica: (replica.topic, replica.partition))),
    )
