"""A shard hosts a kind of groups that it knows only from the registry.

The kind here is as unlike the others as a share group will be: no classic protocol, no committed
offsets, no expiry, requests of its own.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Any, Final

import pytest
from shard_stage import DAY_MS, ShardStage

from ottla.broker.coordinator.classic import hosting as classic
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.consumer import hosting as consumer
from ottla.broker.coordinator.group import PartitionCheck
from ottla.broker.coordinator.group_kind import GroupKind, GroupKinds, Host
from ottla.broker.coordinator.group_kinds import GROUP_KINDS
from ottla.broker.coordinator.group_shard import GroupShard
from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.protocol.coordinator_records.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.runtime.pace import at_once

CLIENT = Client("c", "/h", 9)
SESSION_MS = 1_000


class QueueState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


class QueueGroup:
    """A group that counts its members in its epoch."""

    kind: Final = "queue"
    successor: Final = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.protocol_type: str | None = "queue"
        self.image: MetadataImage = EMPTY_IMAGE
        self.epoch = 0

    @property
    def state(self) -> QueueState:
        return QueueState.EMPTY if self.is_empty else QueueState.STABLE

    @property
    def is_empty(self) -> bool:
        return self.epoch == 0

    def validate_delete(self) -> ErrorCode | None:
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_offset_commit(self, *_: Any, **__: Any) -> PartitionCheck | None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_offset_delete(self) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        return None


def enter(host: Host, group_id: str, now: Now, outbox: Outbox) -> None:
    """The kind's own request."""
    group = host.groups.setdefault(group_id, QueueGroup(group_id))
    assert isinstance(group, QueueGroup)
    group.epoch += 1
    store(group, outbox)
    loaded(group, now, outbox)


def store(group: QueueGroup, outbox: Outbox) -> None:
    value = ShareGroupMetadataValue(epoch=group.epoch)
    outbox.append(ShareGroupMetadataKey(group_id=group.group_id), value)


def replay(host: Host, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
    if value is None:
        host.groups.pop(key.group_id, None)
        return
    group = host.groups[key.group_id] = QueueGroup(key.group_id)
    group.epoch = value.epoch


def loaded(group: QueueGroup, now: Now, outbox: Outbox) -> None:
    outbox.set_timer((group.kind, group.group_id, "session"), now.ms + SESSION_MS)


def timer_fired(group: QueueGroup, _key: Any, _now: Now, outbox: Outbox) -> None:
    group.epoch = 0
    store(group, outbox)


def delete(group: QueueGroup, _now: Now, outbox: Outbox) -> None:
    outbox.append(ShareGroupMetadataKey(group_id=group.group_id), None)


QUEUE: Final[GroupKind[QueueGroup]] = GroupKind(
    name=QueueGroup.kind,
    record_keys=(ShareGroupMetadataKey,),
    create=lambda _host, group_id: QueueGroup(group_id),
    replay=replay,
    loaded=loaded,
    timer_fired=timer_fired,
    delete=delete,
)


class KindStage(ShardStage):
    def _made(self) -> GroupShard:
        return GroupShard(
            self.settings, Random(0), 0, GroupKinds(classic.KIND, consumer.KIND, QUEUE)
        )

    def enter(self, group_id: str) -> None:
        self.step(lambda now, outbox: enter(self.shard, group_id, now, outbox))


@pytest.fixture
def stage() -> KindStage:
    stage = KindStage()
    stage.enter("q")
    return stage


def listed(shard: GroupShard, **filters: frozenset[str]) -> set[tuple[str, str, str]]:
    steps = shard.list_groups(filters.get("states", frozenset()), filters.get("kinds", frozenset()))
    return {(one.group_id, one.group_type, one.group_state) for one in at_once(steps)}


def test_the_registry_has_all_kinds() -> None:
    assert set(GROUP_KINDS.by_name) == {"classic", "consumer"}
    assert GROUP_KINDS.default is classic.KIND


def test_it_is_listed_by_its_kind_and_state(stage: KindStage) -> None:
    stage.commit("g", 1)
    assert listed(stage.shard) == {("q", "queue", "Stable"), ("g", "classic", "Empty")}
    assert listed(stage.shard, kinds=frozenset({"queue"})) == {("q", "queue", "Stable")}
    assert listed(stage.shard, states=frozenset({"empty"})) == {("g", "classic", "Empty")}


def test_its_timers_fire_for_its_groups_only(stage: KindStage) -> None:
    stage.advance(SESSION_MS)
    assert listed(stage.shard) == {("q", "queue", "Empty")}
    stage.shard.groups["q"] = ClassicGroup("q", stage.settings.classic, Random(0))
    stage.step(stage.shard.timer_fired, ("queue", "q", "session"))
    assert listed(stage.shard) == {("q", "classic", "Empty")}


def test_it_is_loaded_from_its_records_and_its_timers_start(stage: KindStage) -> None:
    shard = stage._made()
    record = ShareGroupMetadataKey(group_id="q"), ShareGroupMetadataValue(epoch=3)
    shard.replay(CoordinatorRecord(*record), -1)
    outbox = Outbox()
    shard.loaded(stage.now, outbox)
    assert listed(shard) == {("q", "queue", "Stable")}
    assert ("queue", "q", "session") in outbox.timers
    shard.replay(CoordinatorRecord(record[0], None), -1)
    assert listed(shard) == set()


def test_it_is_deleted_when_it_is_empty(stage: KindStage) -> None:
    assert stage.delete_group("q") is ErrorCode.NON_EMPTY_GROUP
    stage.advance(SESSION_MS)
    assert stage.delete_group("q") is ErrorCode.NONE
    assert listed(stage.shard) == set()
    assert stage.log[-1][1] is None


def test_it_has_no_offsets(stage: KindStage) -> None:
    assert stage.commit("q", 1, generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.fetch("q") == -1
    assert stage.delete_offset("q") is ErrorCode.GROUP_ID_NOT_FOUND


def test_it_does_not_expire(stage: KindStage) -> None:
    stage.advance(8 * DAY_MS)
    assert listed(stage.shard) == {("q", "queue", "Empty")}


def test_members_of_other_protocols_are_refused(stage: KindStage) -> None:
    join = JoinGroupRequest(
        group_id="q",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    answer = stage.ask(stage.shard.join, join, CLIENT)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for ask, request in (
        (stage.shard.sync, SyncGroupRequest(group_id="q", member_id="m")),
        (stage.shard.heartbeat, HeartbeatRequest(group_id="q", member_id="m")),
        (stage.shard.leave, LeaveGroupRequest(group_id="q")),
    ):
        assert stage.ask(ask, request, CLIENT) is ErrorCode.UNKNOWN_MEMBER_ID
    beat = ConsumerGroupHeartbeatRequest(group_id="q", member_id="m", member_epoch=0)
    with pytest.raises(KafkaError, match="there is no consumer group q"):
        consumer.heartbeat(stage.shard, beat, CLIENT, None, stage.now, Outbox())
    assert consumer.describe(stage.shard, "q").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.describe(stage.shard, "q", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert listed(stage.shard) == {("q", "queue", "Stable")}
