"""One consumer group of the new protocol: what requests, timers and stored records do to it.

A pure machine: it is told an event and the time, changes itself at once, and leaves in the outbox
what is to be stored, answered and waited for. It is built up in layers:

    stored           what its records add up to
    subscriptions    the topics it reads
    assigning        epochs, targets, members that follow them
    members          fencing, leaving, the way back to a classic group
    classic_members  JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    group            ConsumerGroupHeartbeat, and what the shard asks of every group

A request that cannot be granted raises `KafkaError`, always before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ottla.coordinator.classic.client import Client
from ottla.coordinator.consumer.assigning import SESSION
from ottla.coordinator.consumer.classic_members import ClassicMembers
from ottla.coordinator.consumer.describe import describe
from ottla.coordinator.consumer.embedded import CONSUMER
from ottla.coordinator.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Member,
    MemberState,
    same_partitions,
)
from ottla.coordinator.consumer.records import target_assignment
from ottla.coordinator.consumer.states import ConsumerGroupState
from ottla.coordinator.consumer.stored import FIRST_EPOCH
from ottla.coordinator.outbox import Now, Outbox
from ottla.metadata.image import MetadataImage
from ottla.protocol.coordinator_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_describe import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_LEAVES: Final = (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


class ConsumerGroup(ClassicMembers):
    protocol_type: str | None = CONSUMER

    # --- heartbeats -----------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        token: Any,
        image: MetadataImage,
        now: Now,
        outbox: Outbox,
    ) -> None:
        """A member joins, lives, reports what it has, or leaves; and is told what it shall have.
        What is wrong with any such request, `requests.check_heartbeat` has found before."""
        self.image = image
        if request.member_epoch in _LEAVES:
            self._leave(request, token, now, outbox)
            return
        member_id = request.member_id or self._new_member_id()
        old = self._claimed(request, member_id)
        self._check_regex(request.subscribed_topic_regex)
        if old is not None and old.member_id != member_id:
            self._replace_static(old, member_id, outbox)
        before = self.members.get(member_id) or Member(member_id)
        changed = self._take_heartbeat(before, request, client, now, outbox)
        self._assign_if_due(now, outbox)
        self._follow(member_id, _owned(request), changed, now, outbox)
        self._set_timer(SESSION, member_id, self.settings.session_timeout_ms, now, outbox)
        outbox.reply(token, self._answer(request, before, self.members[member_id]))

    def _claimed(self, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Member | None:
        """The member that it is, or whose place it takes; None if it is new."""
        if request.member_epoch != JOINING_EPOCH:
            member = self._known(member_id, request.instance_id)
            self._check_epoch(member, request)
            return member
        if request.instance_id is not None:
            member_id = self.static_ids.get(request.instance_id, "")
        claimed = self.members.get(member_id)
        if claimed is None:
            self._check_room()
        elif request.instance_id is not None:
            self._check_released(claimed, request)
        return claimed

    def _check_released(self, owner: Member, request: ConsumerGroupHeartbeatRequest) -> None:
        """The place of a static member is free once it said that it leaves for a while; or if it
        spoke the classic protocol, where there is no such word."""
        if owner.uses_classic or owner.epoch == STATIC_LEAVING_EPOCH:
            return
        if owner.member_id == request.member_id:
            return  # the answer to its first join was lost
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"member {owner.member_id} still uses the instance id {request.instance_id}",
        )

    def _check_epoch(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
        told, owned = request.member_epoch, _owned(request)
        if told != member.epoch:
            # It may not have heard of its new epoch; then it has nothing that is not its own.
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
        self,
        before: Member,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        now: Now,
        outbox: Outbox,
    ) -> bool:
        """Note what the member says of itself; whether it subscribes to something else now."""
        told = _told(request, client)
        news = {name: value for name, value in told.items() if getattr(before, name) != value}
        if news or before.member_id not in self.members:
            self._write_member(replace(before, **news), outbox)
        changed = "topics" in news or "regex" in news
        self._bump_if(changed or self.epoch == FIRST_EPOCH, now, outbox)
        return changed

    def _answer(
        self, request: ConsumerGroupHeartbeatRequest, before: Member, after: Member
    ) -> ConsumerGroupHeartbeatResponse:
        """The assignment goes along when it changed, and to a member that told everything it knows:
        it does so when it joins and when it missed an answer."""
        told_everything = (
            request.rebalance_timeout_ms != -1
            and request.topic_partitions is not None
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )
        joins = request.member_epoch == JOINING_EPOCH
        response = ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
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
        self, request: ConsumerGroupHeartbeatRequest, token: Any, now: Now, outbox: Outbox
    ) -> None:
        member = self._known(request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            self._leave_for_a_while(member, outbox)
        else:
            self._remove([member], now, outbox)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        outbox.reply(token, response)

    # --- what the shard asks --------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_deleted:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = all(
            member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()
        )
        return ConsumerGroupState.STABLE if settled else ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def loaded(self, now: Now, outbox: Outbox) -> None:
        """All records were replayed; the members have a session's time to come here."""
        for member_id, member in self.members.items():
            session_ms = self.settings.session_timeout_ms
            if member.classic is not None:
                session_ms = member.classic.session_timeout_ms
            self._set_timer(SESSION, member_id, session_ms, now, outbox)
            if not member.uses_classic and member.state == MemberState.UNREVOKED_PARTITIONS:
                self._start_revoking(member, now, outbox)

    def take_over(
        self, members: Iterable[Member], generation: int, now: Now, outbox: Outbox
    ) -> None:
        """Begin, stable, as what a classic group was; all of it goes on record."""
        taken = list(members)
        for member in taken:
            self._write_member(member, outbox)
        key = ConsumerGroupMetadataKey(group_id=self.group_id)
        value = ConsumerGroupMetadataValue(epoch=generation, metadata_hash=self._current_hash())
        self._write(key, value, outbox)
        for member in taken:
            held = {topic_id: frozenset(indexes) for topic_id, indexes in member.assigned.items()}
            self._write(self._target_key(member.member_id), target_assignment(held), outbox)
        self._write_assignment_epoch(0, outbox)
        for member in taken:
            self._write_current(member, outbox)
        self.loaded(now, outbox)

    def metadata_changed(self, image: MetadataImage, now: Now, outbox: Outbox) -> None:
        """Looked at when the next member comes: many changes then are one rebalance."""
        self.image = image

    def validate_delete(self) -> ErrorCode | None:
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def delete(self, now: Now, outbox: Outbox) -> None:
        """Remove every trace of it but the offsets."""
        for member_id in self.members:
            self._cancel_timers(member_id, outbox)
        self._write_tombstones(outbox)

    def describe(self, image: MetadataImage | None = None) -> DescribedGroup:
        return describe(self, self.state, self.assignor, self.image if image is None else image)

    # --- offsets --------------------------------------------------------------------------------

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
    ) -> ErrorCode | None:
        """Why these offsets may not be committed; None if they may."""
        if generation < 0 and self.is_empty:
            return None  # a tool, or a consumer that assigns partitions to itself
        anonymous = generation == -1 and not member_id and instance_id is None
        if transactional and anonymous:
            return None  # a producer that does not tell its consumer's membership
        return self._epoch_refusal(member_id, generation)

    def validate_partition_commit(
        self, member_id: str, generation: int, topic_id: bytes, partition: int
    ) -> ErrorCode | None:
        """The same for one partition, and with more patience: a commit on its way while the member
        moved on to another epoch is good for what it had then and has still. For partitions of a
        request that `validate_offset_commit` refused with STALE_MEMBER_EPOCH or ILLEGAL_GENERATION.
        """
        refusal = self._epoch_refusal(member_id, generation)
        member = self.members.get(member_id)
        if refusal is None or member is None or not 0 <= generation < member.epoch:
            return refusal
        since = member.assignment_epoch(topic_id, partition)
        return None if since is not None and since <= generation else refusal

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        if member_id is None and epoch < 0:
            return None
        return self._epoch_refusal(member_id or "", epoch)

    def _epoch_refusal(self, member_id: str, epoch: int) -> ErrorCode | None:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == epoch:
            return None
        return ErrorCode.ILLEGAL_GENERATION if member.uses_classic else ErrorCode.STALE_MEMBER_EPOCH

    def offsets_committed(self, member_id: str, now: Now, outbox: Outbox) -> None:
        """No sign of life: only heartbeats are."""

    def validate_offset_delete(self) -> ErrorCode | None:
        return None

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        return committed_ms


def _owned(request: ConsumerGroupHeartbeatRequest) -> Mapping[bytes, Iterable[int]] | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _told(request: ConsumerGroupHeartbeatRequest, client: Client) -> dict[str, Any]:
    """The fields that this heartbeat carries; members need not repeat what did not change."""
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
