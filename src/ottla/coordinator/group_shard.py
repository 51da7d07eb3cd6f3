"""All groups of one partition of `__consumer_offsets`, and the offsets they have committed.

Requests and timers find their group here; groups are made and deleted here. What happens inside a
group is the business of its protocol: `classic/`, `consumer/`.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Final, cast

from ottla.coordinator import record_codec
from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.consumer import hosting
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.settings import ConsumerSettings
from ottla.coordinator.consumer.stored import RECORD_KEYS
from ottla.coordinator.group import Group
from ottla.coordinator.group_settings import GroupShardSettings
from ottla.coordinator.offsets import commit, deletion, expiry, fetch
from ottla.coordinator.offsets.store import OffsetStore, no_topic_id
from ottla.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.coordinator.shard import Token
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.resources import ResourceType
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.coordinator_records.legacy_offset_commit import LegacyOffsetCommitKey
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeletableGroupResult
from ottla.protocol.messages.describe_groups import DescribedGroup
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
EXPIRY_TIMER: Final = ("offsets", "expiry")
GROUP_NOT_FOUND_FROM: Final = 9
"""The version of OffsetCommit from which on clients know what it means that a group is gone."""
DESCRIBE_NOT_FOUND_FROM: Final = 6
_OLD_EPOCH: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
_EXPIRING_VALUE_VERSION: Final = 1
_GROUP_VALUE_VERSION: Final = 3
"""Newer ones exist to be read, but nobody writes them yet."""


class GroupShard:
    record_types = record_codec.GROUP_RECORDS

    def __init__(self, settings: GroupShardSettings, random: Random, index: int) -> None:
        self.settings = settings
        self.index = index
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.image: MetadataImage = EMPTY_IMAGE
        self.random = random

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """What holds for a consumer group: it may have settings of its own."""
        return self.settings.consumer_of(self.image.config((ResourceType.GROUP, group_id)))

    # --- records --------------------------------------------------------------------------------

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        version = None
        if isinstance(record.value, OffsetCommitValue):
            # Only an old version has room for the expiry that old clients ask for.
            version = _EXPIRING_VALUE_VERSION if record.value.expire_timestamp != -1 else None
        elif isinstance(record.value, GroupMetadataValue):
            version = _GROUP_VALUE_VERSION
        return record_codec.encode(record, version)

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        key, value = record
        if isinstance(key, OffsetCommitKey):
            self._replay_offset(key, cast("OffsetCommitValue | None", value), producer_id)
        elif isinstance(key, LegacyOffsetCommitKey):
            same = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
            self._replay_offset(same, cast("OffsetCommitValue | None", value), producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._replay_classic(key, cast("GroupMetadataValue | None", value))
        elif isinstance(key, RECORD_KEYS):
            hosting.replay(self, key, value)

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        if value is not None and key.group not in self.groups:
            self._new_classic(key.group)
        self.offsets.replay(key, value, producer_id)

    def _replay_classic(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[key.group]
            return
        classic = group if isinstance(group, ClassicGroup) else self._new_classic(key.group)
        classic.replay(key, value)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.transaction_ended(producer_id, committed=committed)

    # --- life -----------------------------------------------------------------------------------

    def lead_on(self, leader_epoch: int) -> None:
        """Nothing that groups write names the epoch."""

    def loaded(self, now: Now, outbox: Outbox) -> None:
        for group in list(self.groups.values()):
            group.loaded(now, outbox)
        outbox.set_timer(EXPIRY_TIMER, now.ms + self.settings.expiry_interval_ms)

    def timer_fired(self, key: Hashable, now: Now, outbox: Outbox) -> None:
        if key == EXPIRY_TIMER:
            self._expire(now, outbox)
            outbox.set_timer(EXPIRY_TIMER, now.ms + self.settings.expiry_interval_ms)
            return
        kind, group_id = cast("tuple[str, str]", key)[:2]
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if kind == CONSUMER:
                hosting.timer_fired(self, group, key, now, outbox)
        elif group is not None and kind == CLASSIC:
            group.timer_fired(key, now, outbox)

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage, now: Now, outbox: Outbox
    ) -> None:
        self.image = image
        for topic in delta.deleted.values():
            deletion.topic_deleted(self.offsets, topic.name, topic.id, outbox)

    def _expire(self, now: Now, outbox: Outbox) -> None:
        for group_id, group in list(self.groups.items()):
            if self._expire_offsets(group_id, group, now, outbox) and group.is_empty:
                group.delete(now, outbox)
                del self.groups[group_id]

    def _expire_offsets(self, group_id: str, group: Group, now: Now, outbox: Outbox) -> bool:
        if group.offset_idle_since_ms(now.wall_ms) is None:
            return not self.offsets.group(group_id) and not self.offsets.has_open_transactions(
                group_id
            )
        return expiry.expire(
            self.offsets,
            group_id,
            is_subscribed=group.is_subscribed_to,
            unused_since_ms=lambda one: cast(int, group.offset_idle_since_ms(one.commit_ms)),
            retention_ms=self.settings.offset_retention_ms,
            now=now,
            outbox=outbox,
        )

    # --- classic groups -------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group_id = require_group_id(request.group_id)
        if not self.settings.classic.allows_session_timeout(request):
            code = ErrorCode.INVALID_SESSION_TIMEOUT
            outbox.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
            return
        group: Group | None = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if hosting.join(self, group, request, client, token, now, outbox):
                return
            group = None
        if group is None and not request.member_id:
            group = self._new_classic(group_id)
        if not isinstance(group, ClassicGroup):
            code = ErrorCode.UNKNOWN_MEMBER_ID
            outbox.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
            return
        group.join(request, client, token, now, outbox)

    def sync(
        self, request: SyncGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group = self._joined(request.group_id)
        if isinstance(group, ConsumerGroup):
            hosting.sync(self, group, request, client, token, now, outbox)
        else:
            group.sync(request, client, token, now, outbox)

    def heartbeat(
        self, request: HeartbeatRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group = self._joined(request.group_id)
        if isinstance(group, ConsumerGroup):
            hosting.classic_heartbeat(self, group, request, client, token, now, outbox)
        else:
            group.heartbeat(request, client, token, now, outbox)

    def leave(
        self, request: LeaveGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group = self._joined(request.group_id)
        if isinstance(group, ConsumerGroup):
            hosting.leave(self, group, request, client, token, now, outbox)
        else:
            group.leave(request, client, token, now, outbox)

    def _joined(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """The group of a request that only a member may send."""
        group = self.groups.get(require_group_id(group_id))
        if isinstance(group, ClassicGroup | ConsumerGroup):
            return group
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")

    def _new_classic(self, group_id: str) -> ClassicGroup:
        group = ClassicGroup(group_id, self.settings.classic, self.random)
        self.groups[group_id] = group
        return group

    # --- consumer groups ------------------------------------------------------------------------

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        token: Token,
        now: Now,
        outbox: Outbox,
    ) -> None:
        require_group_id(request.group_id)
        hosting.heartbeat(self, request, client, token, now, outbox)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        return hosting.describe(self, require_group_id(group_id))

    # --- offsets --------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        commit.check_size(request, self.settings.commit_bytes_max)
        group = self._group_to_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            ErrorCode.GROUP_ID_NOT_FOUND
            if client.api_version >= GROUP_NOT_FOUND_FROM
            else ErrorCode.ILLEGAL_GENERATION,
        )
        _check_commit_version(group, request.member_id, client.api_version)
        refusal = group.validate_offset_commit(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
        )
        check = self._patient_check(
            refusal, group, request.member_id, request.generation_id_or_member_epoch
        )
        self._keep(group)
        group.offsets_committed(request.member_id, now, outbox)
        response = commit.commit(
            self.offsets,
            request,
            metadata_bytes_max=self.settings.offset_metadata_bytes_max,
            now=now,
            outbox=outbox,
            check=check,
        )
        outbox.reply(token, response)

    def _patient_check(
        self, refusal: ErrorCode | None, group: Group, member_id: str, generation: int
    ) -> commit.PartitionCheck | None:
        """A member of a consumer group that has just moved on may still commit what it keeps: then
        each partition is judged by itself. Other refusals are final."""
        if refusal is None:
            return None
        if not isinstance(group, ConsumerGroup) or refusal not in _OLD_EPOCH:
            raise KafkaError(refusal)

        def check(topic: str, topic_id: bytes, partition: int) -> ErrorCode | None:
            if no_topic_id(topic_id) and (known := self.image.topics.get(topic)) is not None:
                topic_id = known.id
            return group.validate_partition_commit(member_id, generation, topic_id, partition)

        return check

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        client: Client,
        token: Token,
        now: Now,
        outbox: Outbox,
    ) -> None:
        require_group_id(request.group_id)
        commit.check_size(request, self.settings.commit_bytes_max)
        illegal = ErrorCode.ILLEGAL_GENERATION
        group = self._group_to_commit(request.group_id, request.generation_id, illegal)
        refusal = group.validate_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            transactional=True,
        )
        patient = self._patient_check(refusal, group, request.member_id, request.generation_id)

        def check(topic: str, topic_id: bytes, partition: int) -> ErrorCode | None:
            found = None if patient is None else patient(topic, topic_id, partition)
            return illegal if found is ErrorCode.STALE_MEMBER_EPOCH else found

        self._keep(group)
        response = commit.commit_in_transaction(
            self.offsets,
            request,
            metadata_bytes_max=self.settings.offset_metadata_bytes_max,
            now=now,
            outbox=outbox,
            check=check,
        )
        outbox.reply(token, response)

    def _group_to_commit(self, group_id: str, generation: int, if_gone: ErrorCode) -> Group:
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if generation >= 0:
            raise KafkaError(if_gone)
        # A tool, or a consumer that assigns partitions to itself: a group of offsets only.
        return ClassicGroup(group_id, self.settings.classic, self.random)

    def _keep(self, group: Group) -> None:
        self.groups.setdefault(group.group_id, group)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        group = self.groups.get(request.group_id)
        if group is not None:
            refusal = _fetch_refusal(group, request)
            if refusal is None:
                return fetch.fetch(self.offsets, request, require_stable=require_stable)
            if refusal is not ErrorCode.GROUP_ID_NOT_FOUND:
                return OffsetFetchResponseGroup(group_id=request.group_id, error_code=int(refusal))
        return OffsetFetchResponseGroup(
            group_id=request.group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[fetch.no_offset(index) for index in topic.partition_indexes],
                )
                for topic in request.topics or ()
            ],
        )

    def delete_offsets(
        self, request: OffsetDeleteRequest, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group = self.groups.get(require_group_id(request.group_id))
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        refusal = group.validate_offset_delete()
        if refusal is not None:
            raise KafkaError(refusal)
        response = deletion.delete(self.offsets, request, group.is_subscribed_to, outbox)
        outbox.reply(token, response)

    # --- groups as a whole ----------------------------------------------------------------------

    def list_groups(self, states: frozenset[str], kinds: frozenset[str]) -> list[ListedGroup]:
        """Those in one of `states` and of one of `kinds`, in lower case; all if empty."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=kind_of(group),
            )
            for group in self.groups.values()
            if (not states or group.state.value.lower() in states)
            and (not kinds or kind_of(group) in kinds)
        ]

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        described = DescribedGroup(group_id=group_id, group_state="Dead")
        if api_version >= DESCRIBE_NOT_FOUND_FROM:
            described.error_code = int(ErrorCode.GROUP_ID_NOT_FOUND)
            described.error_message = f"Group {group_id} not found."
        return described

    def delete_group(self, group_id: str, token: Token, now: Now, outbox: Outbox) -> None:
        error = self._delete(group_id, now, outbox)
        outbox.reply(token, DeletableGroupResult(group_id=group_id, error_code=int(error)))

    def _delete(self, group_id: str, now: Now, outbox: Outbox) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        refusal = group.validate_delete()
        if refusal is not None:
            return refusal
        self.offsets.remove_group(group_id, outbox)
        group.delete(now, outbox)
        del self.groups[group_id]
        return ErrorCode.NONE


def require_group_id(group_id: str) -> str:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    return group_id


def kind_of(group: Group) -> str:
    """The protocol that its members speak, by the name that tools use, in lower case."""
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC


def _check_commit_version(group: Group, member_id: str, api_version: int) -> None:
    """Clients of before cannot understand the answers that members of the new protocol get."""
    if api_version < GROUP_NOT_FOUND_FROM and isinstance(group, ConsumerGroup):
        member = group.members.get(member_id)
        if member is not None and not member.uses_classic:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _fetch_refusal(group: Group, request: OffsetFetchRequestGroup) -> ErrorCode | None:
    """Members of classic groups need not prove anything to read offsets."""
    if isinstance(group, ConsumerGroup):
        return group.validate_offset_fetch(request.member_id, request.member_epoch)
    return None
