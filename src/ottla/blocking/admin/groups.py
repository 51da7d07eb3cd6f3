"""Groups, their offsets and their lag, without `await`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.group_values import DescribedGroup, GroupMember, ListedGroup, PartitionLag
from ottla.client.admin.groups import REMOVED_BY_HAND
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import KafkaError


class GroupCalls(AdminCalls):
    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        return self._call(lambda: self._admin.list_groups(states=states, types=types))

    def list_consumer_groups(self, *, states: Collection[str] = ()) -> list[ListedGroup]:
        return self._call(lambda: self._admin.list_consumer_groups(states=states))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, DescribedGroup | KafkaError]:
        return self._call(lambda: self._admin.describe_groups(group_ids))

    def describe_group(self, group_id: str) -> DescribedGroup:
        return self._call(lambda: self._admin.describe_group(group_id))

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        return self._call(lambda: self._admin.delete_groups(group_ids))

    def delete_group(self, group_id: str) -> None:
        return self._call(lambda: self._admin.delete_group(group_id))

    def remove_members_from_group(
        self,
        group_id: str,
        members: Iterable[GroupMember | str] | None = None,
        *,
        reason: str = REMOVED_BY_HAND,
    ) -> dict[str, KafkaError | None]:
        return self._call(
            lambda: self._admin.remove_members_from_group(group_id, members, reason=reason)
        )

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._call(
            lambda: self._admin.list_group_offsets(group_id, partitions, stable=stable)
        )

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._call(lambda: self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._call(lambda: self._admin.delete_group_offsets(group_id, partitions))

    def group_lag(self, group_id: str) -> list[PartitionLag]:
        return self._call(lambda: self._admin.group_lag(group_id))

    def group_lags(
        self, groups: Iterable[DescribedGroup]
    ) -> dict[str, list[PartitionLag] | KafkaError]:
        return self._call(lambda: self._admin.group_lags(groups))
