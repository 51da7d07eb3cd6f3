"""Membership in a group of the classic protocol: the members assign the partitions themselves.

`attend` goes round this circle as far as it gets without waiting for other members:

    a reason to join ──> prepare: commit, give up partitions ──> a round (in the background)
           ^                                                              │
           └── cooperative, and something was given up <── apply <────────┘
"""

from __future__ import annotations

import asyncio
import logging

from ottla.client.consumer.assignors.assignor import Assignment, RebalanceProtocol, Subscription
from ottla.client.consumer.assignors.consumer_protocol import write_subscription
from ottla.client.consumer.assignors.named import assignors_of, protocol_of
from ottla.client.consumer.groups.classic.heartbeats import Heartbeats
from ottla.client.consumer.groups.classic.leader import Leader
from ottla.client.consumer.groups.classic.requests import leave_request
from ottla.client.consumer.groups.classic.round import Joined, JoinRound
from ottla.client.consumer.groups.classic.state import NO_MEMBER, ClassicState, Phase
from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.consumer.groups.commits import Refusal
from ottla.client.consumer.groups.group_protocol import UNSUBSCRIBED, MemberParts
from ottla.client.consumer.groups.topics import SubscribedTopics
from ottla.client.errors import ClientError
from ottla.client.network.finding import CoordinatorType
from ottla.client.network.metadata import ClusterView
from ottla.client.values import GroupMetadata
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")


class ClassicProtocol:
    """A `GroupProtocol`: this member joins rounds, and may lead them."""

    def __init__(self, parts: MemberParts) -> None:
        self._cluster = parts.cluster
        self._settings = parts.settings
        self._group_id = parts.group_id
        self._subscriptions = parts.subscriptions
        self._attention = parts.attention
        self._metrics = parts.metrics
        self._announcer = parts.announcer
        self._handover = parts.handover
        self._auto_commit = parts.auto_commit
        self._assignors = assignors_of(parts.settings.partition_assignment_strategy)
        self._protocol = protocol_of(self._assignors.values())
        self._state = ClassicState(parts.settings)
        self._topics = SubscribedTopics(
            parts.cluster, parts.settings, parts.subscriptions, self._metadata_changed
        )
        self._joined_topics: frozenset[str] | None = None
        """Topics that this member subscribed to when it last joined."""
        self._leader = Leader(
            parts.cluster, parts.subscriptions, by_rack=bool(parts.settings.client_rack)
        )
        self._round: asyncio.Task[Joined | None] | None = None
        self._goodbye: asyncio.Task[None] | None = None
        self._heartbeats = Heartbeats(
            parts.cluster,
            parts.settings,
            self._state,
            parts.polls,
            parts.metrics,
            attention=parts.attention.request,
            leave=self.leave_group,
        )

    # Queries and notifications

    def group_metadata(self) -> GroupMetadata:
        return self._state.metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._state.request_rejoin(reason or "the application wants a rebalance")
        self._attention.request()

    def subscription_changed(self) -> None:
        if self._subscriptions.is_subscribed:
            self._topics.follow()
            self._attention.request()
        elif self._state.phase is not Phase.UNJOINED:
            self._goodbye = asyncio.create_task(self.leave_group(UNSUBSCRIBED))

    @property
    def has_lost_partitions(self) -> bool:
        return self._state.has_lost_partitions or self._state.is_rebalancing

    @property
    def may_commit(self) -> bool:
        is_calm = self._round is None and self._state.rejoin_reason is None
        return is_calm and self._state.phase is Phase.STABLE

    def identity_for_commit(self) -> MemberIdentity:
        return self._state.identity_for_commit()

    def identity_for_fetch(self) -> MemberIdentity | None:
        return None

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        before = self._state.rejoin_reason
        refusal = self._state.commit_refused(code, sent)
        if self._state.rejoin_reason is not before:
            self._attention.request()
        return refusal

    # Rebalancing

    async def take_part(self, deadline: float) -> None:
        self._raise_failure()
        self._heartbeats.start()
        while True:  # each pass finishes a round, or begins one, or returns
            self._look_around()
            if self._round is not None:
                if not self._round.done() or not await self._finish_round(deadline):
                    return
            elif self._state.rejoin_reason is None or not await self._prepare(deadline):
                return
            else:
                self._begin_round()

    def _raise_failure(self) -> None:
        failure, self._heartbeats.failure = self._heartbeats.failure, None
        if failure is not None:
            raise failure

    def _metadata_changed(self, view: ClusterView) -> None:
        before = self._state.rejoin_reason
        self._look_around()
        if before is None and self._state.rejoin_reason is not None:
            self._attention.request()

    def _look_around(self) -> None:
        """Request a rejoin if the subscription or, for the leader, the partitions have changed."""
        if self._state.rejoin_reason is not None:
            return
        if self._leader.is_outdated(self._cluster.view):
            self._state.request_rejoin("the partitions of the group's topics have changed")
        if self._joined_topics not in (None, self._subscriptions.topics):
            self._state.request_rejoin("the subscription has changed")

    async def _prepare(self, deadline: float) -> bool:
        """Give up the partitions that must go before joining. False if `deadline` passes first."""
        state, subscriptions = self._state, self._subscriptions
        if not state.must_prepare:
            return True
        if not state.has_lost_partitions and not await self._handover.committed_first(deadline):
            return False
        if state.has_lost_partitions:
            await self._handover.lose_all()
        elif self._protocol is RebalanceProtocol.EAGER:
            await self._handover.give_up(subscriptions.assigned)
        elif gone := [one for one in subscriptions.assigned if not self._topics.admits(one.topic)]:
            await self._handover.give_up(gone)
        state.prepared()
        self._leader.resign()
        self._announcer.raise_failure()
        return True

    def _begin_round(self) -> None:
        joining = JoinRound(
            self._cluster,
            self._settings,
            self._state,
            self._leader,
            self._assignors,
            self._protocol,
            self._metrics,
            refresh=self._topics.refresh,
            subscription=self._pack_subscription,
        )
        self._round = asyncio.create_task(joining.run(), name=f"join {self._group_id}")
        self._round.add_done_callback(lambda _: self._attention.request())

    def _pack_subscription(self) -> dict[str, bytes]:
        topics = self._joined_topics = self._subscriptions.topics
        owned = tuple(self._subscriptions.assigned)
        return {
            name: write_subscription(
                Subscription(
                    topics=tuple(topics),
                    user_data=assignor.subscription_userdata(topics, owned),
                    owned=owned,
                    generation=self._state.generation,
                    rack=self._settings.client_rack or None,
                )
            )
            for name, assignor in self._assignors.items()
        }

    async def _finish_round(self, deadline: float) -> bool:
        """Apply the result of the round. False if `deadline` passes first."""
        finished, state = self._round, self._state
        assert finished is not None
        joined = None if finished.exception() else finished.result()
        if joined is None:
            self._round = None
            finished.result()  # raises the error for the application
            return True
        going = self._subscriptions.assigned.difference(joined.assignment.partitions)
        # A cooperative member has continued to read during the round.
        if going and not await self._handover.committed_first(deadline):
            return False
        if self._round is not finished:
            return True  # the member has left the group meanwhile
        self._round = None
        if state.phase is not Phase.STABLE or state.identity != joined.member:
            state.reset("the generation was over before its assignment could be applied")
            return True
        try:
            await self._apply(joined.assignment)
        except BaseException:
            state.request_rejoin("the assignment was not put into force")
            raise
        self._announcer.raise_failure()
        return True

    async def _apply(self, assignment: Assignment) -> None:
        state, subscriptions = self._state, self._subscriptions
        wanted = frozenset(assignment.partitions)
        state.applied()
        if not all(self._topics.admits(one.topic) for one in wanted):
            state.request_rejoin("the assignment does not fit the subscription any more")
            return
        owned = subscriptions.assigned
        if gone := owned - wanted:
            await self._handover.give_up(gone)
            state.request_rejoin("partitions were given up for others to take")
        self._adopt_topics(frozenset(one.topic for one in wanted))
        assert state.protocol_name is not None
        self._assignors[state.protocol_name].on_assignment(assignment, state.metadata())
        self._auto_commit.start()
        subscriptions.assign_from_group(wanted - owned, ())
        await self._announcer.assigned(wanted - owned)

    def _adopt_topics(self, topics: frozenset[str]) -> None:
        """Add assigned topics that match the pattern and that only the leader knew so far."""
        if self._subscriptions.pattern is not None and self._joined_topics is not None:
            added = topics - self._joined_topics
            self._subscriptions.matched(self._subscriptions.topics | added)
            self._joined_topics |= added

    # Leaving

    async def leave_group(self, reason: str) -> None:
        state = self._state
        member_id, phase = state.member_id, state.phase
        self._cancel_round()
        self._joined_topics = None
        state.reset(reason)
        is_static = self._settings.group_instance_id is not None
        if is_static or phase is Phase.UNJOINED or member_id == NO_MEMBER:
            return
        try:
            await self._send_leave(member_id, reason)
        except (ClientError, KafkaError) as error:
            log.info("group %s: the request to leave failed: %s", self._group_id, error)

    async def _send_leave(self, member_id: str, reason: str) -> None:
        from ottla.protocol.messages.leave_group import LeaveGroupRequest

        connection = await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)
        version = connection.version_of(LeaveGroupRequest)
        log.info("group %s: %s leaves: %s", self._group_id, member_id, reason)
        request = leave_request(self._group_id, member_id, reason, version)
        answer = await connection.request(request, version=version)
        codes = [answer.error_code, *(one.error_code for one in answer.members)]
        if code := next(filter(None, codes), 0):
            raise KafkaError(ErrorCode.of(code))

    def _cancel_round(self) -> None:
        if self._round is not None:
            self._round.cancel()
            self._round = None

    def stop(self) -> None:
        self._cancel_round()
        self._heartbeats.stop()
        self._topics.stop()
        self._leader.resign()
