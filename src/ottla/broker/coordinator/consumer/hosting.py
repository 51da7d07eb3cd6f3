"""Consumer groups among the groups of a shard: found, created, or converted from classic ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.conversion import dissolve
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.stored import group_key
from ottla.broker.coordinator.consumer import classic_members, heartbeats, members, stored
from ottla.broker.coordinator.consumer.describe import describe as described
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import JOINING_EPOCH
from ottla.broker.coordinator.consumer.settings import ConsumerSettings
from ottla.broker.coordinator.consumer.upgrade import upgraded
from ottla.broker.coordinator.group import Group
from ottla.broker.coordinator.group_kind import ClassicProtocol, GroupKind, Host
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.metadata.resources import ResourceType
from ottla.protocol.coordinator_records.consumer_group_metadata import ConsumerGroupMetadataKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.schema import Message


def settings_of(host: Host, group_id: str) -> ConsumerSettings:
    """Return the settings of a group; the group's own configs override the broker's."""
    return host.settings.consumer_of(host.image.config((ResourceType.GROUP, group_id)))


def create(host: Host, group_id: str) -> ConsumerGroup:
    return ConsumerGroup(group_id, settings_of(host, group_id), host.random)


def replay(host: Host, key: Any, value: Message | None) -> None:
    group = host.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        # A classic group in its place has only offsets, or was upgraded.
        group = host.groups[key.group_id] = create(host, key.group_id)
    stored.replay(group, key, value)
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        del host.groups[key.group_id]


# --- requests -----------------------------------------------------------------------------------


def heartbeat(
    host: Host,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
    *,
    may_describe: Callable[[str], bool] | None = None,
) -> None:
    """`may_describe` tells which topics the member may see; None if it may see all."""
    group_id = request.group_id
    settings = settings_of(host, group_id)
    before = host.groups.get(group_id)
    group = before
    if not isinstance(group, ConsumerGroup):
        group = _new_or_upgraded(host, request, before, settings, now, outbox)
    group.settings = settings
    group.image = host.image
    group.may_describe = may_describe
    group.has_heartbeat = True
    heartbeats.heartbeat(group, request, client, token, now, outbox)
    if isinstance(before, ClassicGroup):
        dissolve(before, ErrorCode.REBALANCE_IN_PROGRESS, now, outbox)
    host.groups[group_id] = group if group.successor is None else group.successor


def _new_or_upgraded(
    host: Host,
    request: ConsumerGroupHeartbeatRequest,
    before: Group | None,
    settings: ConsumerSettings,
    now: Now,
    outbox: Outbox,
) -> ConsumerGroup:
    """Return a new group, or the upgraded classic one. Only a joining member can cause this."""
    group_id = request.group_id
    joins = request.member_epoch == JOINING_EPOCH
    if before is None and joins:
        return ConsumerGroup(group_id, settings, host.random)
    if not isinstance(before, ClassicGroup) or not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    if before.is_empty:
        fresh = ConsumerGroup(group_id, settings, host.random)
        if not before.is_simple:
            outbox.append(group_key(group_id), None)
        return fresh
    return upgraded(before, settings, host.random, host.image, now, outbox)


def describe(host: Host, group_id: str) -> DescribedGroup:
    group = host.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return described(group, host.image)
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a consumer group."
        if group is not None
        else f"Group {group_id} not found.",
    )


KIND: Final[GroupKind[ConsumerGroup]] = GroupKind(
    name=ConsumerGroup.kind,
    record_keys=stored.RECORD_KEYS,
    create=create,
    replay=replay,
    loaded=members.loaded,
    timer_fired=members.timer_fired,
    delete=members.delete,
    classic_protocol=ClassicProtocol(
        join=classic_members.join,
        sync=classic_members.sync,
        heartbeat=classic_members.heartbeat,
        leave=classic_members.leave,
    ),
)
