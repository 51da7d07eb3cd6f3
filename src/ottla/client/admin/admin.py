"""Administration of a cluster: topics, configs, offsets, log directories.

Answers are plain values. What fails for one of several items is returned beside it as a
`KafkaError`, so that the others are not lost; calls for a single item raise it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin.values import (
    AlterOperation,
    ConfigEntry,
    ConfigSource,
    CreatedTopic,
    LogDir,
    OffsetAt,
    Replica,
    ResourceType,
)
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Broker, ClusterView, Topic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import ZERO_UUID

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3
SERVER_DEFAULT = -1


def _error(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def _raise_for(code: int, message: str | None = None) -> None:
    if error := _error(code, message):
        raise error


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # The cluster

    async def describe_cluster(self) -> ClusterView:
        """Brokers, fenced ones too where the cluster tells, and the controller."""
        from ottla.protocol.messages.describe_cluster import DescribeClusterRequest

        await self._cluster.refresh(())
        connection = await self._cluster.any_broker()
        if not connection.versions.supports(ApiKey.DESCRIBE_CLUSTER):
            return self._cluster.view
        request = DescribeClusterRequest()
        if (version := connection.version_of(request)) >= 2:
            request.include_fenced_brokers = True
        response = await connection.request(request, version=version)
        _raise_for(response.error_code, response.error_message)
        brokers = {
            broker.broker_id: Broker(
                broker.broker_id, broker.host, broker.port, broker.rack, bool(broker.is_fenced)
            )
            for broker in response.brokers
        }
        return ClusterView(response.cluster_id, response.controller_id, brokers)

    # Topics

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """The named topics, or all; one that does not exist has its `error_code` set."""
        view = await self._cluster.retrying(lambda: self._cluster.refresh(names))
        return dict(sorted(view.topics.items()))

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
        """With `assignments` (partition to brokers) the two numbers must be left alone."""
        from ottla.protocol.messages.create_topics import (
            CreatableReplicaAssignment,
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in (assignments or {}).items()
            ],
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(
            topics=[topic],
            timeout_ms=self._cluster.request_timeout_ms,
            validate_only=validate_only,
        )
        result = (await self._change(request)).topics[0]
        _raise_for(result.error_code, result.error_message)
        return CreatedTopic(
            name,
            result.topic_id if result.topic_id not in (None, ZERO_UUID) else None,
            result.num_partitions if result.num_partitions >= 0 else None,
            result.replication_factor if result.replication_factor >= 0 else None,
        )

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        connection = await self._cluster.controller()
        request = DeleteTopicsRequest(timeout_ms=self._cluster.request_timeout_ms)
        version = connection.version_of(request)
        if version >= 6:
            request.topics = [DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        response = await self._change(request)
        return {
            result.name: _error(result.error_code, result.error_message)
            for result in response.responses
        }

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `count` partitions; `assignments` are for the new ones, in order."""
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
            timeout_ms=self._cluster.request_timeout_ms,
            validate_only=validate_only,
        )
        result = (await self._change(request)).results[0]
        _raise_for(result.error_code, result.error_message)

    async def _change(self, request: Any) -> Any:
        """Send a change to the controller. Asked again only where it has surely not been made."""

        async def attempt() -> Any:
            response = await (await self._cluster.controller()).request(request)
            if ErrorCode.NOT_CONTROLLER in _codes(response):
                await self._cluster.refresh(())
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._cluster.retrying(attempt, resend=False)

    # Configs

    async def describe_configs(
        self, kind: ResourceType, name: str, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        from ottla.protocol.messages.describe_configs import (
            DescribeConfigsRequest,
            DescribeConfigsResource,
        )

        connection = await self._config_owner(kind, name)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
            ]
        )
        if (version := connection.version_of(request)) >= 3:
            request.include_documentation = documentation
        result = (await connection.request(request, version=version)).results[0]
        _raise_for(result.error_code, result.error_message)
        entries = [_config_entry(config) for config in result.configs]
        return sorted(entries, key=lambda entry: entry.name)

    async def alter_configs(
        self,
        kind: ResourceType,
        name: str,
        changes: Sequence[tuple[AlterOperation, str, str | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single keys; those not named stay as they are."""
        from ottla.protocol.messages.incremental_alter_configs import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
        )

        configs = [
            AlterableConfig(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            ],
            validate_only=validate_only,
        )
        connection = await self._config_owner(kind, name)
        result = (await connection.request(request)).responses[0]
        _raise_for(result.error_code, result.error_message)

    async def _config_owner(self, kind: ResourceType, name: str) -> Any:
        """A broker alone knows its own settings; everything else any of them can tell."""
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
            await self._cluster.refresh(())
            if not name.isdigit() or int(name) not in self._cluster.view.brokers:
                known = ", ".join(str(node) for node in sorted(self._cluster.view.brokers))
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; there are: {known}"
                )
            return await self._cluster.broker(int(name))
        return await self._cluster.controller()

    # Offsets and records

    async def offsets(
        self,
        topic: str,
        at: Mapping[int, int],
        *,
        isolation: int = 0,
    ) -> dict[int, OffsetAt]:
        """For each partition the offset at EARLIEST, LATEST, MAX_TIMESTAMP or a time in ms."""

        async def attempt() -> dict[int, OffsetAt]:
            await self._cluster.topic(topic)
            groups = await self._cluster.by_leader(topic, at)
            parts = await asyncio.gather(
                *(
                    self._offsets_from(node_id, topic, {i: at[i] for i in indexes}, isolation)
                    for node_id, indexes in groups.items()
                )
            )
            return {index: found for part in parts for index, found in part.items()}

        found = await self._cluster.retrying(attempt)
        return dict(sorted(found.items()))

    async def _offsets_from(
        self, node_id: int, topic: str, at: Mapping[int, int], isolation: int
    ) -> dict[int, OffsetAt]:
        from ottla.protocol.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsTopic,
        )

        connection = await self._cluster.broker(node_id)
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index, timestamp in at.items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
        )
        if (version := connection.version_of(request)) >= 2:
            request.isolation_level = isolation
        if version >= 10:
            request.timeout_ms = self._cluster.request_timeout_ms
        response = await connection.request(request, version=version)
        answers = {}
        for answer in response.topics[0].partitions:
            _raise_for(answer.error_code)
            answers[answer.partition_index] = OffsetAt(
                answer.offset, answer.timestamp, answer.leader_epoch
            )
        return answers

    async def delete_records(
        self, topic: str, before: Mapping[int, int]
    ) -> dict[int, int | KafkaError]:
        """Drop what lies before an offset (-1: everything); the new first offset of each."""
        from ottla.protocol.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        await self._cluster.topic(topic)
        outcome: dict[int, int | KafkaError] = {}
        for node_id, indexes in (await self._cluster.by_leader(topic, before)).items():
            connection = await self._cluster.broker(node_id)
            partitions = [
                DeleteRecordsPartition(partition_index=index, offset=before[index])
                for index in indexes
            ]
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=partitions)],
                timeout_ms=self._cluster.request_timeout_ms,
            )
            for answer in (await connection.request(request)).topics[0].partitions:
                error = _error(answer.error_code)
                outcome[answer.partition_index] = error or answer.low_watermark
        return dict(sorted(outcome.items()))

    # Log directories

    async def log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

        await self._cluster.refresh(())
        found: list[LogDir] = []
        for node_id in sorted(self._cluster.view.brokers if brokers is None else brokers):
            connection = await self._cluster.broker(node_id)
            response = await connection.request(DescribeLogDirsRequest(topics=None))
            _raise_for(response.error_code)
            found += [_log_dir(node_id, result) for result in response.results]
        return found


def _codes(response: Any) -> set[int]:
    """The error codes of the items, whatever this kind of response calls them."""
    items: list[Any] = []
    for name in ("topics", "responses", "results"):
        items += getattr(response, name, [])
    return {item.error_code for item in items}


def _config_entry(config: Any) -> ConfigEntry:
    known = config.config_source in ConfigSource._value2member_map_
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN,
        config.read_only,
        config.is_sensitive,
        config.documentation,
    )


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
        _error(result.error_code),
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        sorted(replicas, key=lambda replica: (replica.topic, replica.partition)),
    )
