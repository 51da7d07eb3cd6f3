"""Members that still speak the classic protocol, served inside a consumer group.

They get their part of the assignment through JoinGroup and SyncGroup, never lead, and are told by
the answers to their heartbeats when to come again. A generation is the member's epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.member import protocols_of, rebalance_timeout_ms
from ottla.coordinator.consumer.assigning import JOIN, SESSION, SYNC
from ottla.coordinator.consumer.embedded import (
    CONSUMER,
    by_topic_id,
    read_subscription,
    version_of,
    write_assignment,
)
from ottla.coordinator.consumer.member import Member, MemberState
from ottla.coordinator.consumer.members import Members
from ottla.coordinator.consumer.stored import FIRST_EPOCH
from ottla.coordinator.outbox import Now, Outbox
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


class ClassicMembers(Members):
    # --- join -----------------------------------------------------------------------------------

    def classic_join(
        self, request: JoinGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """The session time-out was checked before, as for classic groups."""
        try:
            member_id = request.member_id or self._new_member_id()
            old, subscription = self._check_join(request, member_id)
        except KafkaError as error:
            response = JoinGroupResponse(error_code=error.code, member_id=request.member_id)
            outbox.reply(token, response)
            return
        asks_for_id = client.api_version >= _MEMBER_ID_REQUIRED_FROM
        if not request.member_id and request.group_instance_id is None and asks_for_id:
            # The id is not remembered: whoever comes with it is taken as a new member.
            code = ErrorCode.MEMBER_ID_REQUIRED
            outbox.reply(token, JoinGroupResponse(error_code=code, member_id=member_id))
            return
        replaces_last = old is not None and old.member_id != member_id and not old.uses_classic
        if old is not None and old.member_id != member_id:
            self._replace_static(old, member_id, outbox)
        changed = self._take_join(member_id, request, subscription, client, now, outbox)
        if replaces_last and self._all_are_classic:
            self._join_downgraded(member_id, changed, now, outbox)
        else:
            self._assign_if_due(now, outbox)
            owned = by_topic_id(
                ((one.topic, one.partitions) for one in subscription.owned_partitions), self.image
            )
            self._follow(member_id, owned, changed, now, outbox)
            self._set_timer(SESSION, member_id, request.session_timeout_ms, now, outbox)
            timeout_ms = rebalance_timeout_ms(request, client)
            self._set_timer(SYNC, member_id, timeout_ms, now, outbox)
        self._join_asked.discard(member_id)
        outbox.cancel_timer(self._timer(JOIN, member_id))
        epoch = self.epoch if self.successor is not None else self.members[member_id].epoch
        outbox.reply(
            token,
            JoinGroupResponse(
                member_id=member_id,
                generation_id=epoch,
                protocol_type=CONSUMER,
                protocol_name=request.protocols[0].name,
            ),
        )

    def _check_join(
        self, request: JoinGroupRequest, member_id: str
    ) -> tuple[Member | None, ConsumerProtocolSubscription]:
        """The member that it is or takes the place of, and what it wants; or `KafkaError`."""
        if (
            sum(len(one.metadata) for one in request.protocols)
            > self.settings.classic.record_bytes_max // 2
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)  # too much to be stored
        if not self._speaks(request):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except MalformedMessage as error:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
        instance_id = request.group_instance_id
        if instance_id is not None and request.member_id:
            return self._known(member_id, instance_id), subscription
        if instance_id is not None:
            member_id = self.static_ids.get(instance_id, "")
        claimed = self.members.get(member_id)
        if claimed is None:
            self._check_room()
        return claimed, subscription

    def _speaks(self, request: JoinGroupRequest) -> bool:
        """One of its protocols must be one that all other classic members have."""
        others = [member.classic for member in self.members.values() if member.classic is not None]
        names = {protocol.name for protocol in request.protocols}
        for other in others:
            names &= {protocol.name for protocol in other.supported_protocols}
        return request.protocol_type == CONSUMER and bool(names)

    def _take_join(
        self,
        member_id: str,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription,
        client: Client,
        now: Now,
        outbox: Outbox,
    ) -> bool:
        """Note what the member says of itself; whether it subscribes to something else now."""
        before = self.members.get(member_id) or Member(member_id)
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
            self._write_member(member, outbox)
        changed = (member.topics, member.regex) != (before.topics, before.regex)
        self._bump_if(changed or self.epoch == FIRST_EPOCH, now, outbox)
        return changed

    @property
    def _all_are_classic(self) -> bool:
        return (
            all(member.uses_classic for member in self.members.values())
            and self.settings.may_downgrade
            and len(self.members) <= self.settings.classic.members_max
        )

    def _join_downgraded(self, member_id: str, changed: bool, now: Now, outbox: Outbox) -> None:
        """The last member of the new protocol came back with the old: the group goes back, too."""
        wants_more = f"static member {member_id} changed its subscription" if changed else None
        self._downgrade(wants_more, now, outbox)

    # --- sync -----------------------------------------------------------------------------------

    def classic_sync(
        self, request: SyncGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        try:
            member, classic = self._classic(request.member_id, request.group_instance_id)
            _check_generation(request.generation_id, member)
            protocol = classic.supported_protocols[0]
            if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
                None,
                protocol.name,
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except KafkaError as error:
            outbox.reply(token, SyncGroupResponse(error_code=error.code))
            return
        if self.epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            self._ask_to_join(member, now, outbox)
            outbox.reply(token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return
        outbox.cancel_timer(self._timer(SYNC, member.member_id))
        self._set_timer(SESSION, member.member_id, classic.session_timeout_ms, now, outbox)
        version = version_of(protocol.metadata)
        outbox.reply(
            token,
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, version, self.image),
            ),
        )

    # --- heartbeat ------------------------------------------------------------------------------

    def classic_heartbeat(
        self, request: HeartbeatRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        """Alive; and in return the member learns whether to come again for another part."""
        code = ErrorCode.NONE
        try:
            member, classic = self._classic(request.member_id, request.group_instance_id)
            _check_generation(request.generation_id, member)
        except KafkaError as error:
            code = error.code
        else:
            self._set_timer(SESSION, member.member_id, classic.session_timeout_ms, now, outbox)
            if self._should_rejoin(member):
                code = ErrorCode.REBALANCE_IN_PROGRESS
                self._ask_to_join(member, now, outbox)
        outbox.reply(token, HeartbeatResponse(error_code=code))

    def _should_rejoin(self, member: Member) -> bool:
        if member.epoch < self.epoch or member.state == MemberState.UNREVOKED_PARTITIONS:
            return True
        unreleased = member.state == MemberState.UNRELEASED_PARTITIONS
        return unreleased and not self._waits_for_others(member)

    def _ask_to_join(self, member: Member, now: Now, outbox: Outbox) -> None:
        """Its time runs from the first time it was told."""
        if member.member_id not in self._join_asked:
            self._join_asked.add(member.member_id)
            self._set_timer(JOIN, member.member_id, member.rebalance_timeout_ms, now, outbox)

    # --- leave ----------------------------------------------------------------------------------

    def classic_leave(
        self, request: LeaveGroupRequest, client: Client, token: Any, now: Now, outbox: Outbox
    ) -> None:
        leaving: dict[str, Member] = {}
        answers = []
        for one in request.members:
            answer = MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id
            )
            answers.append(answer)
            try:
                member = self._leaving(one)
                leaving[member.member_id] = member
            except KafkaError as error:
                answer.error_code = error.code
        if leaving:
            self._remove(leaving.values(), now, outbox)
        outbox.reply(token, LeaveGroupResponse(members=answers))

    def _leaving(self, one: MemberIdentity) -> Member:
        """An operator who removes a static member knows its instance id only."""
        member_id = one.member_id or self.static_ids.get(one.group_instance_id or "", "")
        return self._classic(member_id, one.group_instance_id)[0]

    def _classic(
        self, member_id: str, instance_id: str | None
    ) -> tuple[Member, ClassicMemberMetadata]:
        member = self._known(member_id, instance_id)
        if member.classic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not speak the classic protocol"
            )
        return member, member.classic


def _check_generation(generation: int, member: Member) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
