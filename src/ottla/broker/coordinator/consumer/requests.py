"""Checks of a ConsumerGroupHeartbeat that do not depend on the group."""

from __future__ import annotations

from ottla.broker.coordinator.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
)
from ottla.broker.coordinator.consumer.settings import ConsumerSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_FROM_CLIENT: int = 1
"""The first version in which clients choose their member id, so that no join is lost."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, settings: ConsumerSettings, api_version: int
) -> None:
    """Raise `KafkaError` if the request is invalid."""
    _not_blank(request.group_id, "GroupId")
    _not_blank(request.instance_id, "InstanceId")
    _not_blank(request.rack_id, "RackId")
    epoch = request.member_epoch
    if epoch < STATIC_LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} has no meaning")
    if epoch != JOINING_EPOCH or api_version >= MEMBER_ID_FROM_CLIENT:
        _not_blank(request.member_id, "MemberId")
    if epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise _invalid("only a member with an InstanceId can leave for a while")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    if epoch != LEAVING_EPOCH:
        _check_assignor(request.server_assignor, settings)
    _check_size(request, settings.classic.record_bytes_max)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins has to tell its RebalanceTimeoutMs")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins owns nothing: TopicPartitions has to be empty")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "a member that joins has to tell its SubscribedTopicNames or SubscribedTopicRegex"
        )


def _check_assignor(name: str | None, settings: ConsumerSettings) -> None:
    if name is not None and name not in settings.assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not offered; these are: {', '.join(settings.assignors)}",
        )


def _check_size(request: ConsumerGroupHeartbeatRequest, bytes_max: int) -> None:
    """Refuse a subscription that does not fit into a record."""
    size = sum(len(name) + 2 for name in request.subscribed_topic_names or ())
    for text in (request.member_id, request.instance_id, request.rack_id):
        size += len(text or "")
    if size > bytes_max // 2:
        raise _invalid(f"the subscription has {size} bytes, which is too much to be stored")


def _not_blank(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} must not be empty")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
