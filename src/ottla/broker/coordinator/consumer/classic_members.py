"""Members of a consumer group that use the classic protocol.

They get their assignment through JoinGroup and SyncGroup, never lead, and learn from the answers to
their heartbeats when to rejoin. Their generation is the member epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ottla.broker.coordinator.classic import joining as classic_joining
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import protocols_of, rebalance_timeout_ms
from ottla.broker.coordinator.consumer.assigning import (
    assign_if_due,
    bump_if,
    follow,
    waits_for_others,
)
from ottla.broker.coordinator.consumer.downgrade import can_downgrade, downgrade
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member, MemberState
from ottla.broker.coordinator.consumer.members import (
    check_room,
    delete,
    known_member,
    new_member_id,
    remove,
    replace_static,
)
from ottla.broker.coordinator.consumer.stored import FIRST_EPOCH
from ottla.broker.coordinator.consumer.timers import JOIN, SESSION, SYNC, cancel_timer, set_timer
from ottla.broker.coordinator.consumer.topic_names import by_topic_id, write_assignment
from ottla.broker.coordinator.consumer.writing import write_member
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, read_subscription, read_version
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED_FROM: Final = 4


# --- join ---------------------------------------------------------------------------------------


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """The caller has checked the session timeout, as for classic groups."""
    if not group.is_empty:
        _join(group, request, client, token, now, outbox)
    elif request.member_id:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        outbox.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
    else:
        delete(group, now, outbox)
        classic = ClassicGroup(group.group_id, group.settings.classic, group.random)
        classic_joining.join(classic, request, client, token, now, outbox)
        group.successor = classic


def _join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    try:
        member_id = request.member_id or new_member_id(group)
        old, subscription = _check_join(group, request, member_id)
    except KafkaError as error:
        response = JoinGroupResponse(error_code=error.code, member_id=request.member_id)
        outbox.reply(token, response)
        return
    asks_for_id = client.api_version >= _MEMBER_ID_REQUIRED_FROM
    if not request.member_id and request.group_instance_id is None and asks_for_id:
        # The id is not stored: a client that joins with it is treated as a new member.
        code = ErrorCode.MEMBER_ID_REQUIRED
        outbox.reply(token, JoinGroupResponse(error_code=code, member_id=member_id))
        return
    replaces_last = old is not None and old.member_id != member_id and not old.uses_classic
    if old is not None and old.member_id != member_id:
        replace_static(group, old, member_id, outbox)
    changed = _take_join(group, member_id, request, subscription, client, now, outbox)
    if replaces_last and can_downgrade(group):
        # The last member of the new protocol came back with the classic one.
        reason = f"static member {member_id} changed its subscription" if changed else None
        downgrade(group, reason, now, outbox)
    else:
        assign_if_due(group, now, outbox)
        owned = by_topic_id(
            ((one.topic, one.partitions) for one in subscription.owned_partitions), group.image
        )
        follow(group, member_id, owned, changed, now, outbox)
        set_timer(group, SESSION, member_id, request.session_timeout_ms, now, outbox)
        timeout_ms = rebalance_timeout_ms(request, client)
        set_timer(group, SYNC, member_id, timeout_ms, now, outbox)
    group.join_asked.discard(member_id)
    cancel_timer(group, JOIN, member_id, outbox)
    epoch = group.epoch if group.successor is not None else group.members[member_id].epoch
    outbox.reply(
        token,
        JoinGroupResponse(
            member_id=member_id,
            generation_id=epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        ),
    )


def _check_join(
    group: ConsumerGroup, request: JoinGroupRequest, member_id: str
) -> tuple[Member | None, ConsumerProtocolSubscription]:
    """Return the member that joins or is replaced, if any, and the subscription; or raise
    `KafkaError`."""
    if (
        sum(len(one.metadata) for one in request.protocols)
        > group.settings.classic.record_bytes_max // 2
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # too large to be stored
    if not _speaks(group, request):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except MalformedMessage as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id:
        return known_member(group, member_id, instance_id), subscription
    if instance_id is not None:
        member_id = group.static_ids.get(instance_id, "")
    claimed = group.members.get(member_id)
    if claimed is None:
        check_room(group)
    return claimed, subscription


def _speaks(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """True if it supports a protocol that all other classic members support."""
    others = [member.classic for member in group.members.values() if member.classic is not None]
    names = {protocol.name for protocol in request.protocols}
    for other in others:
        names &= {protocol.name for protocol in other.supported_protocols}
    return request.protocol_type == PROTOCOL_TYPE and bool(names)


def _take_join(
    group: ConsumerGroup,
    member_id: str,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    client: Client,
    now: Now,
    outbox: Outbox,
) -> bool:
    """Store the member's data; True if its subscription has changed."""
    before = group.members.get(member_id) or Member(member_id)
    member = replace(
        before,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topics=frozenset(subscription.topics),
        regex="",
        rebalance_timeout_ms=rebalance_timeout_ms(request, client),
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in protocols_of(request.protocols).items()
            ],
        ),
    )
    if member != before:
        write_member(group, member, outbox)
    changed = (member.topics, member.regex) != (before.topics, before.regex)
    bump_if(group, changed or group.epoch == FIRST_EPOCH, now, outbox)
    return changed


# --- sync ---------------------------------------------------------------------------------------


def sync(
    group: ConsumerGroup,
    request: SyncGroupRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    try:
        member, classic = _classic(group, request.member_id, request.group_instance_id)
        _check_generation(request.generation_id, member)
        protocol = classic.supported_protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    except KafkaError as error:
        outbox.reply(token, SyncGroupResponse(error_code=error.code))
        return
    if group.epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
        _ask_to_join(group, member, now, outbox)
        outbox.reply(token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    cancel_timer(group, SYNC, member.member_id, outbox)
    set_timer(group, SESSION, member.member_id, classic.session_timeout_ms, now, outbox)
    version = read_version(protocol.metadata)
    outbox.reply(
        token,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, version, group.image),
        ),
    )


# --- heartbeat ----------------------------------------------------------------------------------


def heartbeat(
    group: ConsumerGroup,
    request: HeartbeatRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """A member reports that it is alive, and learns whether it has to rejoin."""
    code = ErrorCode.NONE
    try:
        member, classic = _classic(group, request.member_id, request.group_instance_id)
        _check_generation(request.generation_id, member)
    except KafkaError as error:
        code = error.code
    else:
        set_timer(group, SESSION, member.member_id, classic.session_timeout_ms, now, outbox)
        if _should_rejoin(group, member):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            _ask_to_join(group, member, now, outbox)
    outbox.reply(token, HeartbeatResponse(error_code=code))


def _should_rejoin(group: ConsumerGroup, member: Member) -> bool:
    if member.epoch < group.epoch or member.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    unreleased = member.state == MemberState.UNRELEASED_PARTITIONS
    return unreleased and not waits_for_others(group, member)


def _ask_to_join(group: ConsumerGroup, member: Member, now: Now, outbox: Outbox) -> None:
    """Start the member's time to rejoin, the first time it is told to."""
    if member.member_id not in group.join_asked:
        group.join_asked.add(member.member_id)
        set_timer(group, JOIN, member.member_id, member.rebalance_timeout_ms, now, outbox)


# --- leave --------------------------------------------------------------------------------------


def leave(
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    leaving: dict[str, Member] = {}
    answers = []
    for one in request.members:
        answer = MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id)
        answers.append(answer)
        try:
            member = _leaving(group, one)
            leaving[member.member_id] = member
        except KafkaError as error:
            answer.error_code = error.code
    if leaving:
        remove(group, leaving.values(), now, outbox)
    outbox.reply(token, LeaveGroupResponse(members=answers))


def _leaving(group: ConsumerGroup, one: MemberIdentity) -> Member:
    """Return the member that leaves. An operator who removes a static member knows only its
    instance id."""
    member_id = one.member_id or group.static_ids.get(one.group_instance_id or "", "")
    return _classic(group, member_id, one.group_instance_id)[0]


def _classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[Member, ClassicMemberMetadata]:
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not speak the classic protocol"
        )
    return member, member.classic


def _check_generation(generation: int, member: Member) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
