"""The records that changes of a group write; each is applied at once."""

from __future__ import annotations

from ottla.broker.coordinator.consumer import records
from ottla.broker.coordinator.consumer.assignors import Partitions
from ottla.broker.coordinator.consumer.member import Member
from ottla.broker.coordinator.consumer.stored import StoredGroup, write
from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
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
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

# --- the group ----------------------------------------------------------------------------------


def write_epoch(group: StoredGroup, epoch: int, metadata_hash: int, outbox: Outbox) -> None:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    write(group, ConsumerGroupMetadataKey(group_id=group.group_id), value, outbox)


def drop_partition_metadata(group: StoredGroup, outbox: Outbox) -> None:
    write(group, ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None, outbox)


def write_assignment_epoch(group: StoredGroup, timestamp_ms: int, outbox: Outbox) -> None:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.epoch, assignment_timestamp=timestamp_ms
    )
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id)
    write(group, key, value, outbox)


def write_regex(
    group: StoredGroup,
    regex: str,
    value: ConsumerGroupRegularExpressionValue | None,
    outbox: Outbox,
) -> None:
    key = ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=regex)
    write(group, key, value, outbox)


def write_tombstones(group: StoredGroup, outbox: Outbox) -> None:
    """Write the tombstones of all records: the members' first, the group's last."""
    group_id = group.group_id
    for member_id in list(group.members):
        write_gone(group, member_id, outbox)
    write(group, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None, outbox)
    for regex in list(group.regexes):
        write_regex(group, regex, None, outbox)
    drop_partition_metadata(group, outbox)
    write(group, ConsumerGroupMetadataKey(group_id=group_id), None, outbox)


# --- members ------------------------------------------------------------------------------------


def write_member(group: StoredGroup, member: Member, outbox: Outbox) -> None:
    key = ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id)
    write(group, key, records.member_metadata(member), outbox)


def write_target(group: StoredGroup, member_id: str, target: Partitions, outbox: Outbox) -> None:
    key = _target_key(group.group_id, member_id)
    write(group, key, records.target_assignment(target), outbox)


def write_current(group: StoredGroup, member: Member, outbox: Outbox) -> None:
    key = records.current_key(group.group_id, member.member_id)
    write(group, key, records.current_assignment(member), outbox)


def write_gone(group: StoredGroup, member_id: str, outbox: Outbox) -> None:
    """Write a member's tombstones. Kafka needs this order: the assignments first, then the
    member."""
    group_id = group.group_id
    write(group, records.current_key(group_id, member_id), None, outbox)
    write(group, _target_key(group_id, member_id), None, outbox)
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    write(group, key, None, outbox)


def _target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
