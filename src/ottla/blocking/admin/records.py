"""What partitions hold, and in which folders, without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.log_dirs import LogDir, ReplicaLogDirs, ReplicaOf
from ottla.client.admin.offsets import IsolationLevel
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import KafkaError


class RecordCalls(AdminCalls):
    def list_offsets(
        self,
        at: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return self._call(lambda: self._admin.list_offsets(at, isolation_level=isolation_level))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        return self._call(lambda: self._admin.delete_records(before))

    def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> list[LogDir]:
        return self._call(lambda: self._admin.describe_log_dirs(brokers, partitions=partitions))

    def describe_replica_log_dirs(
        self, replicas: Iterable[ReplicaOf]
    ) -> dict[ReplicaOf, ReplicaLogDirs]:
        return self._call(lambda: self._admin.describe_replica_log_dirs(replicas))

    def alter_replica_log_dirs(
        self, moves: Mapping[ReplicaOf, str]
    ) -> dict[ReplicaOf, KafkaError | None]:
        return self._call(lambda: self._admin.alter_replica_log_dirs(moves))
