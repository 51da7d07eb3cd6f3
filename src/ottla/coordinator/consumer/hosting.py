"""Consumer groups among the groups of a shard: which group a request is for, and what becomes of
groups whose kind changes.

The shard keeps the groups; everything here changes its dict only when nothing can fail any more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.stored import group_key
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import JOINING_EPOCH
from ottla.coordinator.consumer.requests import check_heartbeat
from ottla.coordinator.consumer.settings import ConsumerSettings
from ottla.coordinator.consumer.upgrade import upgraded
from ottla.coordinator.outbox import Now, Outbox
from ottla.metadata.image import MetadataImage
from ottla.protocol.coordinator_records.consumer_group_metadata import ConsumerGroupMetadataKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.schema import Message


class Host(Protocol):
    """What a shard has to have."""

    groups: dict[str, Any]
    image: MetadataImage
    random: Random

    def consumer_settings(self, group_id: str) -> ConsumerSettings: ...


# --- records ------------------------------------------------------------------------------------


def replay(host: Host, key: Any, value: Message | None) -> None:
    """A record whose key is one of `stored.RECORD_KEYS`."""
    group = host.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        # A classic group in its place is one that only has offsets, or was upgraded.
        settings = host.consumer_settings(key.group_id)
        group = host.groups[key.group_id] = ConsumerGroup(key.group_id, settings, host.random)
    group.replay(key, value)
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        del host.groups[key.group_id]


# --- the new protocol ---------------------------------------------------------------------------


def heartbeat(
    host: Host,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    group_id = request.group_id
    settings = host.consumer_settings(group_id)
    check_heartbeat(request, settings, client.api_version)
    before = host.groups.get(group_id)
    group = before
    if not isinstance(group, ConsumerGroup):
        group = _new_or_upgraded(host, request, before, settings, now, outbox)
    group.settings = settings
    group.heartbeat(request, client, token, host.image, now, outbox)
    if isinstance(before, ClassicGroup):
        before.dissolve(ErrorCode.REBALANCE_IN_PROGRESS, now, outbox)
    host.groups[group_id] = group
    _settle(host, group)


def _new_or_upgraded(
    host: Host,
    request: ConsumerGroupHeartbeatRequest,
    before: Any,
    settings: ConsumerSettings,
    now: Now,
    outbox: Outbox,
) -> ConsumerGroup:
    """Only a member that joins brings a group into being, or a classic one over to this side."""
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
        return group.describe(host.image)
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a consumer group."
        if group is not None
        else f"Group {group_id} not found.",
    )


# --- the classic protocol, sent to a consumer group ---------------------------------------------


def join(
    host: Host,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> bool:
    """False if the group was empty: it is gone then, and the join is for a new classic group."""
    if group.is_empty and request.member_id:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        outbox.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
        return True
    if group.is_empty:
        group.delete(now, outbox)
        del host.groups[group.group_id]
        return False
    _serve(host, group, group.classic_join, request, client, token, now, outbox)
    return True


def sync(
    host: Host,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    _serve(host, group, group.classic_sync, request, client, token, now, outbox)


def classic_heartbeat(
    host: Host,
    group: ConsumerGroup,
    request: HeartbeatRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    _serve(host, group, group.classic_heartbeat, request, client, token, now, outbox)


def leave(
    host: Host,
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    _serve(host, group, group.classic_leave, request, client, token, now, outbox)


def _serve(
    host: Host,
    group: ConsumerGroup,
    method: Callable[..., None],
    request: Message,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    group.image = host.image
    method(request, client, token, now, outbox)
    _settle(host, group)


# --- time ---------------------------------------------------------------------------------------


def timer_fired(host: Host, group: ConsumerGroup, key: Any, now: Now, outbox: Outbox) -> None:
    group.image = host.image
    group.timer_fired(key, now, outbox)
    _settle(host, group)


def _settle(host: Host, group: ConsumerGroup) -> None:
    """Without its last member of the new protocol a group may have gone back to the old."""
    if group.successor is not None:
        host.groups[group.group_id] = group.successor
