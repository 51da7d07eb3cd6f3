"""Membership in a group of the new protocol (KIP-848): the coordinator assigns the partitions.

Heartbeats bring the target; `attend` moves towards it while the application waits for records.
"""

from __future__ import annotations

import asyncio
import base64
import logging

from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.consumer.groups.commits import Refusal
from ottla.client.consumer.groups.group_protocol import UNSUBSCRIBED, MemberParts
from ottla.client.consumer.groups.new_protocol.heartbeats import Heartbeats
from ottla.client.consumer.groups.new_protocol.names import NameLookup
from ottla.client.consumer.groups.new_protocol.state import NewProtocolState, Phase, Plan, Wanted
from ottla.client.consumer.groups.topics import SubscribedTopics
from ottla.client.errors import ClientError
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.network.metadata import ClusterView
from ottla.client.values import GroupMetadata
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")


class NewProtocol:
    """A `GroupProtocol`: this member follows the target that its coordinator sets."""

    def __init__(self, parts: MemberParts) -> None:
        self._cluster = parts.cluster
        self._group_id = parts.group_id
        self._subscriptions = parts.subscriptions
        self._attention = parts.attention
        self._metrics = parts.metrics
        self._announcer = parts.announcer
        self._handover = parts.handover
        self._state = NewProtocolState(parts.settings, _member_id(parts.cluster))
        self._topics = SubscribedTopics(
            parts.cluster, parts.settings, parts.subscriptions, self._metadata_changed
        )
        self._names = NameLookup(parts.cluster, parts.attention.request)
        self._goodbye: asyncio.Task[None] | None = None
        self._heartbeats = Heartbeats(
            parts.cluster,
            parts.settings,
            self._state,
            parts.polls,
            parts.metrics,
            wanted=self._wanted,
            attention=parts.attention.request,
            expired=self._expired,
        )

    # Queries and notifications

    def group_metadata(self) -> GroupMetadata:
        return self._state.metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        log.warning(
            "group %s: its coordinator decides when to rebalance, enforce_rebalance does nothing",
            self._group_id,
        )

    def subscription_changed(self) -> None:
        if self._subscriptions.is_subscribed:
            self._topics.follow()
            self._attention.request()
            self._heartbeats.beat_now()
        elif self._state.phase is not Phase.OUT:
            self._goodbye = asyncio.create_task(self.leave_group(UNSUBSCRIBED))

    @property
    def has_lost_partitions(self) -> bool:
        return self._state.phase is not Phase.MEMBER

    @property
    def may_commit(self) -> bool:
        return self._state.phase is Phase.MEMBER

    def identity_for_commit(self) -> MemberIdentity:
        return self._state.identity_for_commit()

    def identity_for_fetch(self) -> MemberIdentity | None:
        is_member = self._state.phase is Phase.MEMBER and self._subscriptions.is_subscribed
        return self._state.identity if is_member else None

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            self._heartbeats.beat_now()  # the response brings the new epoch
        return self._state.commit_refused(code, sent)

    # Subscription

    def _wanted(self) -> Wanted:
        pattern = self._subscriptions.pattern
        if isinstance(pattern, str):
            return Wanted(frozenset(), pattern)
        return Wanted(self._subscriptions.topics, None)

    def _metadata_changed(self, view: ClusterView) -> None:
        if self._state.is_news(self._wanted()):
            self._heartbeats.beat_now()

    # Assignment

    async def take_part(self, deadline: float) -> None:
        self._raise_failure()
        state = self._state
        if state.phase in (Phase.OUT, Phase.LOST):
            await self._handover.lose_all()
            state.join()
            self._heartbeats.beat_now()
        self._heartbeats.start()
        self._announcer.raise_failure()
        if state.phase is Phase.MEMBER:
            await self._reconcile(deadline)

    def _raise_failure(self) -> None:
        failure, self._heartbeats.failure = self._heartbeats.failure, None
        if failure is not None:
            raise failure

    def _plan(self) -> Plan:
        return self._state.plan(self._names.known())

    async def _reconcile(self, deadline: float) -> None:
        state, term = self._state, self._state.term
        plan = self._plan()
        self._names.look_up(plan.unresolved)
        if not plan.changes:
            return
        if plan.revoke:
            if not await self._handover.committed_first(deadline):
                return
            if state.term != term or plan != self._plan():
                self._attention.needed = True  # the target has changed meanwhile
                return
            await self._handover.give_up(plan.revoke)
        if state.term == term:
            self._subscriptions.assign_from_group(plan.add, ())
            state.reconciled(plan.held)
            self._metrics.rebalance_ended()
            self._heartbeats.beat_now()
            await self._announcer.assigned(plan.add)
            if state.term == term and self._plan().changes:
                self._attention.request()
        self._announcer.raise_failure()

    # Leaving

    async def _expired(self) -> None:
        """Leave because the application did not poll: other members get the partitions, and the
        listener is called when the application polls again."""
        await self._say_goodbye("max_poll_interval_ms has passed without a poll", lost=True)

    async def leave_group(self, reason: str) -> None:
        await self._say_goodbye(reason, lost=False)

    async def _say_goodbye(self, reason: str, *, lost: bool) -> None:
        state = self._state
        was, member_id, epoch = state.phase, state.member_id, state.leave_epoch
        if lost:
            state.lose()
        else:
            state.leave()
        if was in (Phase.OUT, Phase.LOST) or not member_id:
            return
        log.info("group %s: %s leaves: %s", self._group_id, member_id, reason)
        try:
            coordinator = await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)
            answer = await coordinator.request(state.leave_request(epoch, member_id))
            if answer.error_code:
                raise KafkaError(ErrorCode.of(answer.error_code), answer.error_message)
        except (ClientError, KafkaError) as error:
            log.info("group %s: the request to leave failed: %s", self._group_id, error)

    def stop(self) -> None:
        self._heartbeats.stop()
        self._names.stop()
        self._topics.stop()


def _member_id(cluster: Cluster) -> str:
    """Return a random member id (KIP-1082), so that a repeated join adds no second member."""
    random = cluster.runtime.random.randbytes(16)
    return base64.urlsafe_b64encode(random).decode().rstrip("=")
