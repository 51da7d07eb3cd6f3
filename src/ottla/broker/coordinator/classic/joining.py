"""The answer to a JoinGroup, case by case."""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import (
    NO_MEMBER_ID,
    Member,
    new_member_id,
    protocols_of,
    rebalance_timeout_ms,
)
from ottla.broker.coordinator.classic.rebalancing import (
    complete_join_if_ready,
    joined_response,
    rebalance,
)
from ottla.broker.coordinator.classic.sessions import drop, restart_session
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.classic.stored import fits_on_record, store, store_if_new
from ottla.broker.coordinator.classic.waiting import answer_join, answer_sync, wait_to_join
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9


def join(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """The caller has checked the session timeout (`arguments.check_join_arguments`): a request
    that fails this check must not create a group."""
    refusal = _join_refusal(group, request)
    if refusal is not None:
        outbox.reply(token, refusal)
    elif request.member_id != NO_MEMBER_ID:
        _join_known(group, request, client, token, now, outbox)
    else:
        _join_unknown(group, request, client, token, now, outbox)
    if refusal is not None and refusal.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
        drop(group, request.member_id, outbox)
        complete_join_if_ready(group, now, outbox)
    store_if_new(group, now, outbox)


def _join_refusal(group: ClassicGroup, request: JoinGroupRequest) -> JoinGroupResponse | None:
    if group.state is GroupState.DEAD:
        code, member_id = ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id
    elif _is_full_for(group, _claimed_id(group, request)):
        code, member_id = ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID
    elif not _speaks(group, request):
        code, member_id = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id
    else:
        return None
    return JoinGroupResponse(error_code=code, member_id=member_id)


def _claimed_id(group: ClassicGroup, request: JoinGroupRequest) -> str:
    """Return the member id, for a static member without one its old id: it then takes no new
    place."""
    if request.member_id == NO_MEMBER_ID and request.group_instance_id is not None:
        return group.members.static_ids.get(request.group_instance_id, NO_MEMBER_ID)
    return request.member_id


def _is_full_for(group: ClassicGroup, member_id: str) -> bool:
    most = group.settings.members_max
    if group.state is GroupState.EMPTY:
        return False
    if group.state is GroupState.PREPARING_REBALANCE:
        # Count the joining members, not all, so that a group above a lowered limit can shrink:
        # the members that rejoin last are refused.
        return member_id not in group.members.joining and len(group.members.joining) >= most
    return member_id not in group.members and len(group.members) >= most


def _speaks(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    protocols = {protocol.name for protocol in request.protocols}
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and protocols)
    same_type = request.protocol_type == group.protocol_type
    return same_type and group.members.all_speak_one_of(protocols)


# --- join without an id ---------------------------------------------------------------------------


def _join_unknown(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    instance_id = request.group_instance_id
    prefix = client.client_id if instance_id is None else instance_id
    member_id = new_member_id(prefix, group.random)
    if instance_id is not None and instance_id in group.members.static_ids:
        _come_back(group, member_id, request, client, token, now, outbox)
    elif instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_FROM:
        # The client has to join again with this id. If it gives up and retries meanwhile, no
        # orphaned member is left behind.
        group.members.pending[member_id] = None
        due_ms = now.ms + request.session_timeout_ms
        outbox.set_timer(group.heartbeat_key(member_id), due_ms)
        code = ErrorCode.MEMBER_ID_REQUIRED
        outbox.reply(token, JoinGroupResponse(error_code=code, member_id=member_id))
    else:
        _enter(group, member_id, request, client, token, now, outbox)


def _enter(
    group: ClassicGroup,
    member_id: str,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    if not len(group.members):
        group.protocol_type = request.protocol_type
    group.members.add(Member.joining(member_id, request, client))
    if group.initial is not None:
        group.initial.has_newcomer = True
    wait_to_join(group, member_id, token, outbox)
    due_ms = now.ms + group.settings.new_member_join_timeout_ms
    outbox.set_timer(group.heartbeat_key(member_id), due_ms)
    rebalance(group, _reason(f"member {member_id} joins", request), now, outbox)


# --- static members -------------------------------------------------------------------------------


def _come_back(
    group: ClassicGroup,
    new_id: str,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    """A static member restarted. Its old id is fenced; it keeps its assignment if it can."""
    assert request.group_instance_id is not None
    old_id = group.members.static_ids[request.group_instance_id]
    old_leader_id = group.members.leader_id
    _fence(group, old_id, outbox)
    member = group.members.replace(old_id, new_id)
    if old_id in group.unsynced:
        group.unsynced.remove(old_id)
        group.unsynced.add(new_id)
    _take_over(group, member, request, client)
    restart_session(group, member, now, outbox)
    if group.state is GroupState.STABLE:
        if group.members.elected_protocol() == group.protocol_name and fits_on_record(group):
            group.note_subscriptions()
            store(group, outbox)
            outbox.reply(token, _welcome_back(group, member, client, old_leader_id))
            return
        reason = f"static member {new_id} changes what was agreed on"
    else:
        # The leader may already know the old id, and would assign partitions to that.
        reason = f"static member {new_id} is back"
    wait_to_join(group, new_id, token, outbox)
    rebalance(group, _reason(reason, request), now, outbox)


def _fence(group: ClassicGroup, member_id: str, outbox: Outbox) -> None:
    code = ErrorCode.FENCED_INSTANCE_ID
    fenced = JoinGroupResponse(error_code=code, member_id=member_id)
    answer_join(group, member_id, fenced, outbox)
    answer_sync(group, member_id, SyncGroupResponse(error_code=code), outbox)
    outbox.cancel_timer(group.heartbeat_key(member_id))


def _welcome_back(
    group: ClassicGroup, member: Member, client: Client, old_leader_id: str | None
) -> JoinGroupResponse:
    """Return an answer that changes nothing. A leader is told that it leads but must not
    assign. A client too old to understand this is told of another leader, so it acts as a
    follower."""
    if client.api_version >= SKIP_ASSIGNMENT_FROM:
        leads = member.member_id == group.members.leader_id
        return joined_response(group, member, skip_assignment=leads)
    response = joined_response(group, member)
    response.leader = old_leader_id or ""
    response.members = []
    return response


# --- join with an id ------------------------------------------------------------------------------


def _join_known(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    token: Any,
    now: Now,
    outbox: Outbox,
) -> None:
    member_id = request.member_id
    if member_id in group.members.pending and request.group_instance_id is None:
        _enter(group, member_id, request, client, token, now, outbox)
        return
    refusal = group.members.refusal(member_id, request.group_instance_id)
    if refusal is not None:
        outbox.reply(token, JoinGroupResponse(error_code=refusal, member_id=member_id))
        return
    member = group.members[member_id]
    why = _why_rejoin_rebalances(group, member, request)
    if why is None:
        outbox.reply(token, joined_response(group, member))
    else:
        _take_over(group, member, request, client)
        wait_to_join(group, member_id, token, outbox)
        rebalance(group, _reason(why, request), now, outbox)


def _why_rejoin_rebalances(
    group: ClassicGroup, member: Member, request: JoinGroupRequest
) -> str | None:
    """Return why the rejoin needs a rebalance; None if the member only missed an answer and can
    be told the generation again."""
    if group.state is GroupState.PREPARING_REBALANCE:
        return f"member {member.member_id} rejoins"
    if not member.wants_the_same(request.protocols):
        return f"member {member.member_id} changed its metadata"
    if group.state is GroupState.STABLE and member.member_id == group.members.leader_id:
        # Its assignment may change although its metadata is the same: topics may have changed.
        return f"leader {member.member_id} rejoins"
    return None


def _take_over(
    group: ClassicGroup, member: Member, request: JoinGroupRequest, client: Client
) -> None:
    group.members.change_protocols(member, protocols_of(request.protocols))
    member.rebalance_timeout_ms = rebalance_timeout_ms(request, client)
    member.session_timeout_ms = request.session_timeout_ms
    member.client_id = client.client_id
    member.client_host = client.host


def _reason(what: str, request: JoinGroupRequest) -> str:
    return f"{what}; client reason: {request.reason}" if request.reason else what
