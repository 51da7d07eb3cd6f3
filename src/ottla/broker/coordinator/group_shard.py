"""All groups of one partition of `__consumer_offsets`, and their committed offsets.

It finds the group for requests and timers, and creates and deletes groups. What groups do is in
`classic/` and `consumer/`, behind the interface of `group_kind.py`; requests that only one kind of
group has are served by that kind's `hosting.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from random import Random
from typing import Any, Final, cast

from ottla.broker.coordinator import record_codec
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.member import check_join
from ottla.broker.coordinator.group import Group
from ottla.broker.coordinator.group_kind import ClassicProtocol, GroupKinds
from ottla.broker.coordinator.group_kinds import GROUP_KINDS
from ottla.broker.coordinator.group_settings import GroupShardSettings
from ottla.broker.coordinator.offsets import commit, deletion, expiry, fetch, legacy
from ottla.broker.coordinator.offsets.store import OffsetStore, value_version
from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.shard import Token
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.protocol.coordinator_records.legacy_offset_commit import LegacyOffsetCommitKey
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_groups import DeletableGroupResult
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

EXPIRY_TIMER: Final = ("offsets", "expiry")
GROUP_NOT_FOUND_FROM: Final = 9
"""The first version of OffsetCommit whose clients know GROUP_ID_NOT_FOUND."""


class GroupShard:
    """Its requests have passed the checks of `arguments.py` and of `consumer/requests.py`."""

    record_types = record_codec.GROUP_RECORDS
    base_sequence = 0

    def __init__(
        self,
        settings: GroupShardSettings,
        random: Random,
        index: int,
        kinds: GroupKinds = GROUP_KINDS,
    ) -> None:
        self.settings = settings
        self.index = index
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.image: MetadataImage = EMPTY_IMAGE
        self.random = random
        self._kinds = kinds
        self._kind = kinds.by_name

    # --- records --------------------------------------------------------------------------------

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        value: Any = record.value
        if type(value) is OffsetCommitValue:
            return record_codec.encode(record, value_version(value))
        return record_codec.encode(record, self._kinds.value_versions.get(type(value)))

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        key: Any = record.key
        value: Any = record.value
        kind = self._kinds.by_key.get(type(key))
        if kind is not None:
            kind.replay(self, key, value)
            return
        if type(key) is LegacyOffsetCommitKey:
            key, value = legacy.modern(key, value)
        self._replay_offset(key, value, producer_id)

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        if value is not None and key.group not in self.groups:
            self.groups[key.group] = self._kinds.default.create(self, key.group)
        self.offsets.replay(key, value, producer_id)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.transaction_ended(producer_id, committed=committed)

    # --- lifecycle ------------------------------------------------------------------------------

    def lead_on(self, leader_epoch: int) -> None:
        """Do nothing: no record of a group contains the epoch."""

    def loaded(self, now: Now, outbox: Outbox) -> None:
        for group in list(self.groups.values()):
            self._kind[group.kind].loaded(group, now, outbox)
        outbox.set_timer(EXPIRY_TIMER, now.ms + self.settings.expiry_interval_ms)

    def timer_fired(self, key: Hashable, now: Now, outbox: Outbox) -> None:
        if key == EXPIRY_TIMER:
            self._expire(now, outbox)
            outbox.set_timer(EXPIRY_TIMER, now.ms + self.settings.expiry_interval_ms)
            return
        kind, group_id = cast("tuple[str, str]", key)[:2]
        group = self.groups.get(group_id)
        if group is not None and group.kind == kind:
            group.image = self.image
            self._kind[kind].timer_fired(group, key, now, outbox)
            self._settle(group)

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage, now: Now, outbox: Outbox
    ) -> None:
        self.image = image
        for topic in delta.deleted.values():
            deletion.topic_deleted(self.offsets, topic.name, topic.id, outbox)

    def _expire(self, now: Now, outbox: Outbox) -> None:
        for group in list(self.groups.values()):
            if self._expire_offsets(group, now, outbox) and group.is_empty:
                self._remove(group, now, outbox)

    def _expire_offsets(self, group: Group, now: Now, outbox: Outbox) -> bool:
        """Delete the expired offsets of a group; True if none are left."""
        if group.offset_idle_since_ms(now.wall_ms) is None:
            return False
        return expiry.expire(
            self.offsets,
            group.group_id,
            is_subscribed=group.is_subscribed_to,
            unused_since_ms=lambda one: cast(int, group.offset_idle_since_ms(one.commit_ms)),
            retention_ms=self.settings.offset_retention_ms,
            now=now,
            outbox=outbox,
        )

    def _remove(self, group: Group, now: Now, outbox: Outbox) -> None:
        self._kind[group.kind].delete(group, now, outbox)
        del self.groups[group.group_id]

    def _settle(self, group: Group) -> None:
        """Replace a group that changed its kind."""
        if group.successor is not None:
            self.groups[group.group_id] = group.successor

    # --- the classic protocol -------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        check_join(request, client)
        group = self.groups.get(request.group_id)
        if group is None and not request.member_id:
            group = self._kinds.default.create(self, request.group_id)
            self.groups[request.group_id] = group
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            outbox.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
            return
        protocol = self._kind[group.kind].classic_protocol
        if protocol is None:
            outbox.reply(token, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        group.image = self.image
        protocol.join(group, request, client, token, now, outbox)
        self._settle(group)

    def sync(
        self, request: SyncGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group, protocol = self._joined(request.group_id)
        protocol.sync(group, request, token, now, outbox)

    def heartbeat(
        self, request: HeartbeatRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group, protocol = self._joined(request.group_id)
        protocol.heartbeat(group, request, token, now, outbox)

    def leave(
        self, request: LeaveGroupRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group, protocol = self._joined(request.group_id)
        protocol.leave(group, request, token, now, outbox)
        self._settle(group)

    def _joined(self, group_id: str) -> tuple[Group, ClassicProtocol[Any]]:
        """Return the group of a request that only a member of the classic protocol may send."""
        group = self.groups.get(group_id)
        if group is not None:
            protocol = self._kind[group.kind].classic_protocol
            if protocol is not None:
                group.image = self.image
                return group, protocol
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")

    # --- offsets --------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, client: Client, token: Token, now: Now, outbox: Outbox
    ) -> None:
        commit.check_size(request, self.settings.commit_bytes_max)
        generation, version = request.generation_id_or_member_epoch, client.api_version
        group = self._group_to_commit(
            request.group_id,
            generation,
            ErrorCode.GROUP_ID_NOT_FOUND
            if version >= GROUP_NOT_FOUND_FROM
            else ErrorCode.ILLEGAL_GENERATION,
        )
        check = group.check_offset_commit(
            request.member_id,
            request.group_instance_id,
            generation,
            api_version=version,
            transactional=False,
        )
        self.groups.setdefault(group.group_id, group)
        committed = self._kind[group.kind].offsets_committed
        if committed is not None:
            committed(group, request.member_id, now, outbox)
        response = commit.commit(
            self.offsets,
            request,
            metadata_bytes_max=self.settings.offset_metadata_bytes_max,
            now=now,
            outbox=outbox,
            check=check,
        )
        outbox.reply(token, response)

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        client: Client,
        token: Token,
        now: Now,
        outbox: Outbox,
    ) -> None:
        commit.check_size(request, self.settings.commit_bytes_max)
        generation = request.generation_id
        group = self._group_to_commit(request.group_id, generation, ErrorCode.ILLEGAL_GENERATION)
        check = group.check_offset_commit(
            request.member_id,
            request.group_instance_id,
            generation,
            api_version=client.api_version,
            transactional=True,
        )
        self.groups.setdefault(group.group_id, group)
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
        if group is None:
            if generation >= 0:
                raise KafkaError(if_gone)
            # A tool, or a consumer that assigns its own partitions: a group with offsets only.
            return cast(Group, self._kinds.default.create(self, group_id))
        group.image = self.image
        return group

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        group = self.groups.get(request.group_id)
        if group is None:
            return fetch.no_offsets(request)
        refusal = group.validate_offset_fetch(request.member_id, request.member_epoch)
        if refusal is None:
            return fetch.fetch(self.offsets, request, require_stable=require_stable)
        if refusal is ErrorCode.GROUP_ID_NOT_FOUND:
            return fetch.no_offsets(request)
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=int(refusal))

    def delete_offsets(
        self, request: OffsetDeleteRequest, token: Token, now: Now, outbox: Outbox
    ) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        refusal = group.validate_offset_delete()
        if refusal is not None:
            raise KafkaError(refusal)
        response = deletion.delete(self.offsets, request, group.is_subscribed_to, outbox)
        outbox.reply(token, response)

    # --- groups as a whole ----------------------------------------------------------------------

    def list_groups(
        self, states: frozenset[str], kinds: frozenset[str]
    ) -> Generator[None, None, list[ListedGroup]]:
        """Return the groups in one of `states` and of one of `kinds` (both in lower case); empty
        means all. Pauses at each group, because a shard may have many."""
        listed = []
        for group in list(self.groups.values()):
            if (not states or group.state.value.lower() in states) and (
                not kinds or group.kind in kinds
            ):
                listed.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=group.state.value,
                        group_type=group.kind,
                    )
                )
            yield
        return listed

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
        self._remove(group, now, outbox)
        return ErrorCode.NONE
