"""The durable state of a consumer group: exactly what its records add up to.

A live group changes it in no other way than by the records it writes, so what is loaded from the
log after a crash is the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.assignors import Partitions
from ottla.coordinator.consumer.member import LEAVING_EPOCH, Member
from ottla.protocol.coordinator_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.coordinator_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from ottla.protocol.coordinator_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from ottla.protocol.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.protocol.schema import Message

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined: it never has members."""


class Resolved(NamedTuple):
    """An expression and the topics it stood for when it was last looked at."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata it was held against."""
    timestamp_ms: int


class StoredGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        """Grows with every change of members, subscriptions or topics."""
        self.metadata_hash = 0
        self.assignment_epoch = 0
        """The group's epoch that the targets were made for."""
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id -> the one member id that may use it."""
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, Resolved] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        """Who has a partition, or was asked for it and has not let go of it."""
        self.has_partition_metadata = False
        """A record that Kafka before 4.1 wrote, and that is to be removed."""
        self.is_deleted = False

    def replay(self, key: Message, value: Message | None) -> None:
        _MEANINGS[type(key)](self, key, value)

    # --- one kind of record each ----------------------------------------------------------------

    def _epoch(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        self.is_deleted = value is None
        if value is not None:
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash

    def _partition_metadata(
        self, key: ConsumerGroupPartitionMetadataKey, value: Message | None
    ) -> None:
        self.has_partition_metadata = value is not None

    def _member_metadata(
        self,
        key: ConsumerGroupMemberMetadataKey,
        value: ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        if value is None:
            self._forget(key.member_id)
            return
        member = self.members.get(key.member_id) or Member(key.member_id)
        self.members[key.member_id] = replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        if value.instance_id is not None:
            self.static_ids[value.instance_id] = key.member_id

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member_id:
            del self.static_ids[instance_id]

    def _current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if member is None:
            if value is None:
                return
            member = Member(key.member_id)
        self._release(member)
        if value is None:
            member = replace(
                member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={}, revoking={}
            )
        else:
            member = replace(
                member,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=records.state_from(value.state),
                assigned=records.held_from(value.assigned_partitions, value.member_epoch),
                revoking=records.held_from(value.partitions_pending_revocation, value.member_epoch),
            )
        self.members[key.member_id] = member
        for held in (member.assigned, member.revoking):
            for topic_id, indexes in held.items():
                owners = self.owners.setdefault(topic_id, {})
                owners.update(dict.fromkeys(indexes, member.member_id))

    def _release(self, member: Member) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, indexes in held.items():
                owners = self.owners.get(topic_id, {})
                for index in indexes:
                    if owners.get(index) == member.member_id:
                        del owners[index]
                if not owners:
                    self.owners.pop(topic_id, None)

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = records.target_from(value)

    def _target_metadata(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = Resolved(
                frozenset(value.topics), value.version, value.timestamp
            )


_MEANINGS: dict[type[Message], Callable[[StoredGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: StoredGroup._epoch,
    ConsumerGroupPartitionMetadataKey: StoredGroup._partition_metadata,
    ConsumerGroupMemberMetadataKey: StoredGroup._member_metadata,
    ConsumerGroupCurrentMemberAssignmentKey: StoredGroup._current,
    ConsumerGroupTargetAssignmentMemberKey: StoredGroup._target,
    ConsumerGroupTargetAssignmentMetadataKey: StoredGroup._target_metadata,
    ConsumerGroupRegularExpressionKey: StoredGroup._regex,
}

RECORD_KEYS = tuple(_MEANINGS)
"""The keys of all records that belong to consumer groups."""
