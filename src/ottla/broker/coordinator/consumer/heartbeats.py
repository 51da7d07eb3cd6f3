"""ConsumerGroupHeartbeat: the only request of members of the new protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.consumer.assigning import assign_if_due, bump_if, follow
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Member,
    MemberState,
    same_partitions,
)
from ottla.broker.coordinator.consumer.members import (
    check_room,
    known_member,
    leave_for_a_while,
    new_member_id,
    remove,
    replace_static,
)
from ottla.broker.coordinator.consumer.stored import FIRST_EPOCH
from ottla.broker.coordinator.consumer.subscriptions import check_regex
from ottla.broker.coordinator.consumer.timers import SESSION, set_timer
from ottla.broker.coordinator.consumer.writing import write_member
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_LEAVES: Final = (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """A member joins, stays, reports its partitions or leaves, and is told its assignment.
    `requests.check_heartbeat` has checked the request before."""
    if request.member_epoch in _LEAVES:
        _leave(group, request, token, now, outbox)
        return
    member_id = request.member_id or new_member_id(group)
    old = _claimed(group, request, member_id)
    check_regex(group, request.subscribed_topic_regex)
    if old is not None and old.member_id != member_id:
        replace_static(group, old, member_id, outbox)
    before = group.members.get(member_id) or Member(member_id)
    changed = _take_heartbeat(group, before, request, client, now, outbox)
    assign_if_due(group, now, outbox)
    follow(group, member_id, _owned(request), changed, now, outbox)
    set_timer(group, SESSION, member_id, group.settings.session_timeout_ms, now, outbox)
    outbox.reply(token, _answer(group, request, before, group.members[member_id]))


def _claimed(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> Member | None:
    """Return the member that sends the request or is replaced by it; None if it is new."""
    if request.member_epoch != JOINING_EPOCH:
        member = known_member(group, member_id, request.instance_id)
        _check_epoch(member, request)
        return member
    if request.instance_id is not None:
        member_id = group.static_ids.get(request.instance_id, "")
    claimed = group.members.get(member_id)
    if claimed is None:
        check_room(group)
    elif request.instance_id is not None:
        _check_released(claimed, request)
    return claimed


def _check_released(owner: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise unless the static member has released its instance id: it does so by leaving
    temporarily. A member of the classic protocol cannot say so and is always replaced."""
    if owner.uses_classic or owner.epoch == STATIC_LEAVING_EPOCH:
        return
    if owner.member_id == request.member_id:
        return  # the answer to its first join was lost
    raise KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"member {owner.member_id} still uses the instance id {request.instance_id}",
    )


def _check_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    told, owned = request.member_epoch, _owned(request)
    if told != member.epoch:
        # The member may have missed its new epoch; then it only owns partitions that are
        # assigned to it.
        missed = told == member.previous_epoch and told < member.epoch
        if not missed or owned is None or not member.holds_all(owned):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"member {member.member_id} is at epoch {member.epoch}, not {told}; it has to "
                "give up its partitions and join again",
            )
    if member.state == MemberState.UNKNOWN and (owned is None or owned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member.member_id} is in a state that this broker does not know; it has "
            "to give up its partitions and join again",
        )


def _take_heartbeat(
    group: ConsumerGroup,
    before: Member,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    now: Now,
    outbox: Outbox,
) -> bool:
    """Store the member's data; True if its subscription has changed."""
    told = _fields_in(request, client)
    news = {name: value for name, value in told.items() if getattr(before, name) != value}
    if news or before.member_id not in group.members:
        write_member(group, replace(before, **news), outbox)
    changed = "topics" in news or "regex" in news
    bump_if(group, changed or group.epoch == FIRST_EPOCH, now, outbox)
    return changed


def _answer(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, before: Member, after: Member
) -> ConsumerGroupHeartbeatResponse:
    """Build the response. It has the assignment if that changed, or if the member sent all its
    fields, as it does when it joins or has missed an answer."""
    told_everything = (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )
    joins = request.member_epoch == JOINING_EPOCH
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=group.settings.heartbeat_interval_ms,
    )
    if joins or told_everything or not same_partitions(before.assigned, after.assigned):
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in after.assigned.items()
            ]
        )
    return response


def _leave(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    member = known_member(group, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVING_EPOCH:
        leave_for_a_while(group, member, outbox)
    else:
        remove(group, [member], now, outbox)
    response = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    outbox.reply(token, response)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Mapping[bytes, Iterable[int]] | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _fields_in(request: ConsumerGroupHeartbeatRequest, client: Client) -> dict[str, Any]:
    """Return the fields that this heartbeat carries; members do not repeat unchanged ones."""
    told: dict[str, Any] = {
        "client_id": client.client_id,
        "client_host": client.host,
        "classic": None,
    }
    if request.instance_id is not None:
        told["instance_id"] = request.instance_id
    if request.rack_id is not None:
        told["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        told["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        told["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        told["topics"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        told["regex"] = request.subscribed_topic_regex
    return told
