"""The answer to a JoinGroup, case by case."""

from __future__ import annotations

from typing import Any, Final

from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.member import (
    Member,
    new_member_id,
    protocols_of,
    rebalance_timeout_ms,
)
from ottla.coordinator.classic.phases import Phases
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.classic.stored import group_key
from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

NO_MEMBER_ID: Final = ""
MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9


class Joining(Phases):
    def join(
        self, request: JoinGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """The session timeout is checked before, by `GroupSettings.allows_session_timeout`: a
        request that it refuses must not bring a group into being."""
        refusal = self._join_refusal(request)
        if refusal is not None:
            outbox.reply(token, refusal)
        elif request.member_id != NO_MEMBER_ID:
            self._join_known(request, client, token, now, outbox)
        else:
            self._join_unknown(request, client, token, now, outbox)
        if refusal is not None and refusal.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            self._drop(request.member_id, outbox)
            self._complete_join_if_ready(now, outbox)
        self._store_if_new(now, outbox)

    def _join_refusal(self, request: JoinGroupRequest) -> JoinGroupResponse | None:
        if self.state is GroupState.DEAD:
            code, member_id = ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id
        elif self._is_full_for(self._claimed_id(request)):
            code, member_id = ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID
        elif not self._speaks(request):
            code, member_id = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id
        else:
            return None
        return JoinGroupResponse(error_code=code, member_id=member_id)

    def _claimed_id(self, request: JoinGroupRequest) -> str:
        """A static member that comes back takes no new place."""
        if request.member_id == NO_MEMBER_ID and request.group_instance_id is not None:
            return self.members.static_ids.get(request.group_instance_id, NO_MEMBER_ID)
        return request.member_id

    def _is_full_for(self, member_id: str) -> bool:
        most = self.settings.members_max
        if self.state is GroupState.EMPTY:
            return False
        if self.state is GroupState.PREPARING_REBALANCE:
            # Counting those that wait, not all members, lets a group that is over a lowered limit
            # shrink: who rejoins last has to go.
            return member_id not in self.members.joining and len(self.members.joining) >= most
        return member_id not in self.members and len(self.members) >= most

    def _speaks(self, request: JoinGroupRequest) -> bool:
        protocols = {protocol.name for protocol in request.protocols}
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type and protocols)
        same_type = request.protocol_type == self.protocol_type
        return same_type and self.members.all_speak_one_of(protocols)

    def _store_if_new(self, now: Now, outbox: Outbox) -> None:
        """A group is on record from its first join on, before any member is told of it."""
        if self._stored or self.state is GroupState.DEAD:
            return
        if self.state_since_ms is None:
            self.state_since_ms = now.wall_ms
        value = GroupMetadataValue(
            protocol=None, leader=None, current_state_timestamp=self.state_since_ms
        )
        outbox.append(group_key(self.group_id), value)
        self._stored = True

    # --- without an id --------------------------------------------------------------------------

    def _join_unknown(
        self, request: JoinGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        instance_id = request.group_instance_id
        prefix = client.client_id if instance_id is None else instance_id
        member_id = new_member_id(prefix, self.random)
        if instance_id is not None and instance_id in self.members.static_ids:
            self._come_back(member_id, request, client, token, now, outbox)
        elif instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_FROM:
            # The client has to come again with its id: if it gives up and retries meanwhile, no
            # member is left behind that nobody stands for.
            self.members.pending[member_id] = None
            due_ms = now.ms + request.session_timeout_ms
            outbox.set_timer(self._heartbeat_key(member_id), due_ms)
            code = ErrorCode.MEMBER_ID_REQUIRED
            outbox.reply(token, JoinGroupResponse(error_code=code, member_id=member_id))
        else:
            self._enter(member_id, request, client, token, now, outbox)

    def _enter(
        self,
        member_id: str,
        request: JoinGroupRequest,
        client: Client,
        token: Any,
        now: Now,
        outbox: Outbox,
    ) -> None:
        if not len(self.members):
            self.protocol_type = request.protocol_type
        self.members.add(Member.joining(member_id, request, client))
        self._newcomer = True
        self._wait_to_join(member_id, token, outbox)
        due_ms = now.ms + self.settings.new_member_join_timeout_ms
        outbox.set_timer(self._heartbeat_key(member_id), due_ms)
        self.rebalance(_reason(f"member {member_id} joins", request), now, outbox)

    # --- static members -------------------------------------------------------------------------

    def _come_back(
        self,
        new_id: str,
        request: JoinGroupRequest,
        client: Client,
        token: Any,
        now: Now,
        outbox: Outbox,
    ) -> None:
        """A static member restarted. Its old id is fenced; its work stays with it if it can."""
        assert request.group_instance_id is not None
        old_id = self.members.static_ids[request.group_instance_id]
        old_leader_id = self.members.leader_id
        self._fence(old_id, outbox)
        member = self.members.replace(old_id, new_id)
        if old_id in self._unsynced:
            self._unsynced.remove(old_id)
            self._unsynced.add(new_id)
        self._take_over(member, request, client)
        self._restart_session(member, now, outbox)
        if self.state is GroupState.STABLE:
            if self.members.elected_protocol() == self.protocol_name and self._fits_on_record:
                self._note_subscriptions()
                self._store(outbox)
                outbox.reply(token, self._welcome_back(member, client, old_leader_id))
                return
            reason = f"static member {new_id} changes what was agreed on"
        else:
            # The leader may already have been told the old id, and would assign to that.
            reason = f"static member {new_id} is back"
        self._wait_to_join(new_id, token, outbox)
        self.rebalance(_reason(reason, request), now, outbox)

    def _fence(self, member_id: str, outbox: Outbox) -> None:
        code = ErrorCode.FENCED_INSTANCE_ID
        fenced = JoinGroupResponse(error_code=code, member_id=member_id)
        self._answer_join(member_id, fenced, outbox)
        self._answer_sync(member_id, SyncGroupResponse(error_code=code), outbox)
        outbox.cancel_timer(self._heartbeat_key(member_id))

    def _welcome_back(
        self, member: Member, client: Client, old_leader_id: str | None
    ) -> JoinGroupResponse:
        """Nothing changes. A leader is told that it leads but is not to assign; one too old to
        understand this is told of a leader that it is not, and follows."""
        if client.api_version >= SKIP_ASSIGNMENT_FROM:
            leads = member.member_id == self.members.leader_id
            return self._joined(member, skip_assignment=leads)
        response = self._joined(member)
        response.leader = old_leader_id or ""
        response.members = []
        return response

    # --- with an id -----------------------------------------------------------------------------

    def _join_known(
        self, request: JoinGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        member_id = request.member_id
        if member_id in self.members.pending and request.group_instance_id is None:
            self._enter(member_id, request, client, token, now, outbox)
            return
        refusal = self.members.refusal(member_id, request.group_instance_id)
        if refusal is not None:
            outbox.reply(token, JoinGroupResponse(error_code=refusal, member_id=member_id))
            return
        member = self.members[member_id]
        why = self._why_rejoin_rebalances(member, request)
        if why is None:
            outbox.reply(token, self._joined(member))
        else:
            self._take_over(member, request, client)
            self._wait_to_join(member_id, token, outbox)
            self.rebalance(_reason(why, request), now, outbox)

    def _why_rejoin_rebalances(self, member: Member, request: JoinGroupRequest) -> str | None:
        """None if the member only missed an answer and can be told the generation again."""
        if self.state is GroupState.PREPARING_REBALANCE:
            return f"member {member.member_id} rejoins"
        if not member.wants_the_same(request.protocols):
            return f"member {member.member_id} changed its metadata"
        if self.state is GroupState.STABLE and member.member_id == self.members.leader_id:
            # What it assigns may have changed without its own metadata: topics, for instance.
            return f"leader {member.member_id} rejoins"
        return None

    def _take_over(self, member: Member, request: JoinGroupRequest, client: Client) -> None:
        self.members.change_protocols(member, protocols_of(request.protocols))
        member.rebalance_timeout_ms = rebalance_timeout_ms(request, client)
        member.session_timeout_ms = request.session_timeout_ms
        member.client_id = client.client_id
        member.client_host = client.host


def _reason(what: str, request: JoinGroupRequest) -> str:
    return f"{what}; client reason: {request.reason}" if request.reason else what
