"""Membership in a group: commits, the listener, leaving and closing.

What is done to join the group and to share its partitions is the part of its `GroupProtocol`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ottla.client.consumer.groups.auto_commit import AutoCommit
from ottla.client.consumer.groups.commit_requests import NOBODY, MemberIdentity
from ottla.client.consumer.groups.commits import Commits, Refusal
from ottla.client.consumer.groups.group_protocol import UNSUBSCRIBED, GroupProtocol, MemberParts
from ottla.client.consumer.groups.handover import Handover
from ottla.client.consumer.groups.membership import Attention, CommitCallback, Offsets
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.consumer.groups.polls import PollWatch
from ottla.client.consumer.groups.rebalance_listener import Announcer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.counters import MetricRegistry
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client.group")

CLOSING = "the consumer is being closed"


class GroupMembership:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        attention: Attention,
        metrics: MetricRegistry,
        make_protocol: Callable[[MemberParts], GroupProtocol],
    ) -> None:
        assert settings.group_id is not None
        clock = cluster.runtime.clock
        counted = MembershipMetrics(metrics, clock, subscriptions)
        self.attention = attention
        self._settings = settings
        self._group_id = settings.group_id
        self._subscriptions = subscriptions
        self._clock = clock
        self._polls = PollWatch(settings, clock, attention.request)
        self._announcer = Announcer(lambda: subscriptions.listener, counted)
        self._commits = Commits(cluster, self._group_id, self, counted, attention.request)
        self._auto_commit = AutoCommit(
            settings, subscriptions, self._commits, cluster.runtime, attention.request
        )
        self._handover = Handover(
            settings, clock, subscriptions, self._auto_commit, self._announcer, attention
        )
        self._protocol = make_protocol(
            MemberParts(
                cluster,
                settings,
                self._group_id,
                subscriptions,
                attention,
                counted,
                self._polls,
                self._announcer,
                self._auto_commit,
                self._handover,
            )
        )
        self._is_closed = False

    # Called while the application waits

    async def attend(self, deadline: float) -> None:
        self.polled()
        self.attention.needed = False  # events from now on set it again
        try:
            await self._commits.run_callbacks()
            if self._subscriptions.is_subscribed:
                await self._protocol.take_part(deadline)
            if self._protocol.may_commit or not self._subscriptions.is_subscribed:
                self._auto_commit.commit_if_due()
        except BaseException:
            self.attention.needed = True
            raise

    def polled(self) -> None:
        self._polls.polled()

    # The group

    def subscription_changed(self) -> None:
        self._protocol.subscription_changed()

    def group_metadata(self) -> GroupMetadata:
        return self._protocol.group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._protocol.enforce_rebalance(reason)

    # Offsets

    @property
    def on_commit(self) -> Callable[[Offsets], None]:
        return self._commits.on_commit

    @on_commit.setter
    def on_commit(self, told: Callable[[Offsets], None]) -> None:
        self._commits.on_commit = told

    async def commit(self, offsets: Offsets) -> None:
        await self._commits.commit(offsets)

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        self._commits.commit_soon(offsets, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._commits.committed(partitions)

    # The `Member` that commits speak for

    def identity_for_commit(self) -> MemberIdentity:
        if not self._subscriptions.is_subscribed:
            return NOBODY
        return self._protocol.identity_for_commit()

    def identity_for_fetch(self) -> MemberIdentity | None:
        return self._protocol.identity_for_fetch()

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        return self._protocol.commit_refused(code, sent)

    # Leaving

    async def leave(self) -> None:
        if not self._subscriptions.is_subscribed:
            return
        limit_s = self._settings.default_api_timeout_ms / 1000
        await self._handover.commit_consumed(limit_s)
        await self._depart(UNSUBSCRIBED, limit_s)
        self._announcer.raise_failure()

    async def close(self, timeout_ms: int) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        deadline = self._clock.now() + timeout_ms / 1000
        try:
            await self._handover.commit_consumed(timeout_ms / 1000)
            await self._commits.drain(deadline - self._clock.now())
        finally:
            self._auto_commit.stop()
            try:
                await self._depart(CLOSING, deadline - self._clock.now())
            finally:
                self.stop()
        self._announcer.raise_failure()

    def stop(self) -> None:
        """Stop taking part in the group without a word, as a dead process would."""
        self._protocol.stop()

    async def _depart(self, reason: str, limit_s: float) -> None:
        if self._subscriptions.is_subscribed:
            await self._give_up_all()
        try:
            async with asyncio.timeout(max(limit_s, 0)):
                await self._protocol.leave_group(reason)
        except TimeoutError:
            log.warning(
                "group %s: the coordinator did not answer the request to leave in time",
                self._group_id,
            )

    async def _give_up_all(self) -> None:
        if self._protocol.has_lost_partitions:
            await self._handover.lose_all()
        elif owned := self._subscriptions.assigned:
            await self._handover.give_up(owned)
