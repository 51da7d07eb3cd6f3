"""Where replicas are and who leads, without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.reassignments import Reassignment
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError


class ReplicaCalls(AdminCalls):
    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._call(lambda: self._admin.alter_partition_reassignments(targets))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        return self._call(lambda: self._admin.list_partition_reassignments(partitions))

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: Literal["preferred", "unclean"] = "preferred",
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._call(
            lambda: self._admin.elect_leaders(partitions, election_type=election_type)
        )
