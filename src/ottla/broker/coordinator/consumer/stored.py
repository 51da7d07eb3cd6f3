"""The durable state of a consumer group: exactly what its records add up to.

A live group changes it only by the records it writes, so the state loaded from the log after a
crash is the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.broker.coordinator.consumer import records
from ottla.broker.coordinator.consumer.assignors import Partitions
from ottla.broker.coordinator.consumer.member import LEAVING_EPOCH, Member
from ottla.broker.coordinator.outbox import Outbox
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
"""The epoch of a group that no member has joined; a group with members has a higher one."""


class Resolved(NamedTuple):
    """An expression's topics when it was last resolved."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata image it was resolved with."""
    timestamp_ms: int


class StoredGroup:
    """Only `write` and `replay` change it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        """Bumped with every change of members, subscriptions or topics."""
        self.metadata_hash = 0
        self.assignment_epoch = 0
        """The group epoch that the targets were computed for."""
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id -> the member id that may use it."""
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, Resolved] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        """The owner of each partition, including members that were asked to revoke it and have not
        done so."""
        self.has_partition_metadata = False
        """True if there is a record from Kafka before 4.1, which is to be removed."""
        self.is_deleted = False


def write(group: StoredGroup, key: Message, value: Message | None, outbox: Outbox) -> None:
    """Write a record and apply it. A live group changes its durable state in no other way."""
    outbox.append(key, value)
    replay(group, key, value)


def replay(group: StoredGroup, key: Message, value: Message | None) -> None:
    """Apply a record whose key is one of `RECORD_KEYS`."""
    _MEANINGS[type(key)](group, key, value)


# --- replay, by kind of record ------------------------------------------------------------------


def _epoch(
    group: StoredGroup, _key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    group.is_deleted = value is None
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _partition_metadata(
    group: StoredGroup, _key: ConsumerGroupPartitionMetadataKey, value: Message | None
) -> None:
    group.has_partition_metadata = value is not None


def _member_metadata(
    group: StoredGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        _forget(group, key.member_id)
        return
    member = group.members.get(key.member_id) or Member(key.member_id)
    group.members[key.member_id] = replace(
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
        group.static_ids[value.instance_id] = key.member_id


def _forget(group: StoredGroup, member_id: str) -> None:
    member = group.members.pop(member_id, None)
    if member is None:
        return
    _release(group, member)
    instance_id = member.instance_id
    if instance_id is not None and group.static_ids.get(instance_id) == member_id:
        del group.static_ids[instance_id]


def _current(
    group: StoredGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if member is None:
        if value is None:
            return
        member = Member(key.member_id)
    _release(group, member)
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
    group.members[key.member_id] = member
    for held in (member.assigned, member.revoking):
        for topic_id, indexes in held.items():
            owners = group.owners.setdefault(topic_id, {})
            owners.update(dict.fromkeys(indexes, member.member_id))


def _release(group: StoredGroup, member: Member) -> None:
    for held in (member.assigned, member.revoking):
        for topic_id, indexes in held.items():
            owners = group.owners.get(topic_id, {})
            for index in indexes:
                if owners.get(index) == member.member_id:
                    del owners[index]
            if not owners:
                group.owners.pop(topic_id, None)


def _target(
    group: StoredGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = records.target_from(value)


def _target_metadata(
    group: StoredGroup,
    _key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = 0 if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _regex(
    group: StoredGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = Resolved(
            frozenset(value.topics), value.version, value.timestamp
        )


_MEANINGS: Final[dict[type[Message], Callable[[StoredGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _member_metadata,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupTargetAssignmentMetadataKey: _target_metadata,
    ConsumerGroupRegularExpressionKey: _regex,
}

RECORD_KEYS = tuple(_MEANINGS)
"""The keys of all records of consumer groups."""
