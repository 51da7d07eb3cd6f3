"""What members of both group protocols do alike: commit, tell the listener, come and go."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from ottla.client.consumer.auto_commit import AutoCommit
from ottla.client.consumer.commits import Commits, Refusal
from ottla.client.consumer.commits_requests import NOBODY, MemberIdentity
from ottla.client.consumer.membership import CommitCallback, Offsets
from ottla.client.consumer.membership_metrics import MembershipMetrics
from ottla.client.consumer.membership_polls import PollWatch
from ottla.client.consumer.rebalance_listener import Announcer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.metrics import Metrics
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client.group")

CLOSING = "the consumer is being closed"
UNSUBSCRIBED = "the consumer unsubscribed from all topics"


class GroupMembership(ABC):
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        wake: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        assert settings.group_id is not None
        self.needs_attention = True
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._subscriptions = subscriptions
        self._wake = wake
        self._clock = cluster.runtime.clock
        self._metrics = MembershipMetrics(metrics, self._clock, subscriptions)
        self._polls = PollWatch(settings, self._clock, self._attention)
        self._announcer = Announcer(lambda: subscriptions.listener, self._metrics)
        self._commits = Commits(cluster, self._group_id, self, self._metrics, self._attention)
        self._auto_commit = AutoCommit(
            settings, subscriptions, self._commits, cluster.runtime, self._attention
        )
        self._giving_up: asyncio.Future[None] | None = None
        self._give_up_until = 0.0
        self._is_closed = False

    def _attention(self) -> None:
        self.needs_attention = True
        self._wake()

    # What each protocol does its own way

    @abstractmethod
    async def _take_part(self, deadline: float) -> None:
        """The part of `attend` that concerns the group."""

    @abstractmethod
    async def _leave_group(self, reason: str) -> None:
        """Tell the coordinator, as well as that goes; nothing is raised."""

    @abstractmethod
    def _stop(self) -> None:
        """End what runs in the background, except for commits."""

    @property
    @abstractmethod
    def _has_lost_partitions(self) -> bool:
        """Whether the group has given them to others already, as far as one can know."""

    @property
    @abstractmethod
    def _may_commit(self) -> bool:
        """Whether the group would take a commit now."""

    @abstractmethod
    def subscription_changed(self) -> None: ...

    @abstractmethod
    def group_metadata(self) -> GroupMetadata: ...

    @abstractmethod
    def enforce_rebalance(self, reason: str | None = None) -> None: ...

    @abstractmethod
    def _identity_for_commit(self) -> MemberIdentity: ...

    @abstractmethod
    def identity_for_fetch(self) -> MemberIdentity | None: ...

    @abstractmethod
    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None: ...

    # While the application waits

    async def attend(self, deadline: float) -> None:
        self.polled()
        self.needs_attention = False  # whatever comes from now on asks anew
        try:
            await self._commits.run_callbacks()
            if self._subscriptions.is_subscribed:
                await self._take_part(deadline)
            if self._may_commit or not self._subscriptions.is_subscribed:
                self._auto_commit.commit_if_due()
        except BaseException:
            self.needs_attention = True
            raise

    def polled(self) -> None:
        self._polls.polled()

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

    def identity_for_commit(self) -> MemberIdentity:
        return self._identity_for_commit() if self._subscriptions.is_subscribed else NOBODY

    # Partitions

    async def _committed_first(self, deadline: float) -> bool:
        """Whether what was consumed is committed, as far as that can be: partitions may go. Else
        `attend` must come again."""
        if self._giving_up is None:
            self._giving_up = self._auto_commit.before_giving_up()
            if self._giving_up is None:
                return True
            self._giving_up.add_done_callback(lambda _: self._attention())
            # The others of the group wait, but not longer than that.
            limit_s = self._settings.max_poll_interval_ms / 1000
            self._give_up_until = self._clock.now() + limit_s
        commit = self._giving_up
        limit = min(deadline, self._give_up_until)
        await asyncio.wait({commit}, timeout=max(limit - self._clock.now(), 0))
        if not commit.done() and self._clock.now() < self._give_up_until:
            self.needs_attention = True
            return False
        self._giving_up = None
        if not commit.done():
            log.error("group %s: partitions go without a commit: no answer", self._group_id)
        elif (error := commit.exception()) is not None:
            log.warning("group %s: partitions go without a commit: %s", self._group_id, error)
        return True

    async def _lose_all(self) -> None:
        if owned := self._subscriptions.assigned:
            await self._announcer.lost(owned)
            self._subscriptions.assign_from_group((), owned)

    async def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """The listener first: it may still commit."""
        going = frozenset(partitions)
        await self._announcer.revoked(going)
        self._subscriptions.assign_from_group((), going)

    async def _give_up_all(self) -> None:
        if self._has_lost_partitions:
            await self._lose_all()
        elif owned := self._subscriptions.assigned:
            await self._give_up(owned)

    # Going

    async def leave(self) -> None:
        if not self._subscriptions.is_subscribed:
            return
        limit_s = self._settings.default_api_timeout_ms / 1000
        await self._commit_consumed(limit_s)
        await self._depart(UNSUBSCRIBED, limit_s)
        self._announcer.raise_failure()

    async def close(self, timeout_ms: int) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        deadline = self._clock.now() + timeout_ms / 1000
        try:
            await self._commit_consumed(timeout_ms / 1000)
            await self._commits.drain(deadline - self._clock.now())
        finally:
            self._auto_commit.stop()
            try:
                await self._depart(CLOSING, deadline - self._clock.now())
            finally:
                self._stop()
        self._announcer.raise_failure()

    async def _commit_consumed(self, limit_s: float) -> None:
        commit = self._auto_commit.before_giving_up()
        if commit is None:
            return
        await asyncio.wait({commit}, timeout=max(limit_s, 0))
        error = commit.exception() if commit.done() else "no answer in time"
        if error is not None:
            log.warning("group %s: what was consumed is not committed: %s", self._group_id, error)

    async def _depart(self, reason: str, limit_s: float) -> None:
        if self._subscriptions.is_subscribed:
            await self._give_up_all()
        try:
            async with asyncio.timeout(max(limit_s, 0)):
                await self._leave_group(reason)
        except TimeoutError:
            log.warning("group %s: the coordinator did not hear the good-bye", self._group_id)
