"""Gives partitions back to the group: commits what was consumed, calls the listener, and stops
reading them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ottla.client.consumer.groups.auto_commit import AutoCommit
from ottla.client.consumer.groups.membership import Attention
from ottla.client.consumer.groups.rebalance_listener import Announcer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.runtime.clock import Clock

log = logging.getLogger("ottla.client.group")


class Handover:
    def __init__(
        self,
        settings: ConsumerSettings,
        clock: Clock,
        subscriptions: Subscriptions,
        auto_commit: AutoCommit,
        announcer: Announcer,
        attention: Attention,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._subscriptions = subscriptions
        self._auto_commit = auto_commit
        self._announcer = announcer
        self._attention = attention
        self._commit: asyncio.Future[None] | None = None
        """The commit that must end before partitions are given up."""
        self._commit_until = 0.0

    async def committed_first(self, deadline: float) -> bool:
        """Return True if consumed offsets are committed, as far as possible, so that partitions can
        be given up. If False, `attend` must run again."""
        if self._commit is None:
            self._commit = self._auto_commit.before_giving_up()
            if self._commit is None:
                return True
            self._commit.add_done_callback(lambda _: self._attention.request())
            # The other members of the group wait, but not longer than that.
            limit_s = self._settings.max_poll_interval_ms / 1000
            self._commit_until = self._clock.now() + limit_s
        commit = self._commit
        limit = min(deadline, self._commit_until)
        await asyncio.wait({commit}, timeout=max(limit - self._clock.now(), 0))
        if not commit.done() and self._clock.now() < self._commit_until:
            self._attention.needed = True
            return False
        self._commit = None
        group_id = self._settings.group_id
        if not commit.done():
            log.error("group %s: partitions are given up without a commit: no answer", group_id)
        elif (error := commit.exception()) is not None:
            log.warning("group %s: partitions are given up without a commit: %s", group_id, error)
        return True

    async def commit_consumed(self, limit_s: float) -> None:
        """Commit before leaving the group; a failure is logged."""
        commit = self._auto_commit.before_giving_up()
        if commit is None:
            return
        await asyncio.wait({commit}, timeout=max(limit_s, 0))
        error = commit.exception() if commit.done() else "no answer in time"
        if error is not None:
            group_id = self._settings.group_id
            log.warning("group %s: consumed offsets were not committed: %s", group_id, error)

    async def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Give up partitions after calling the listener, which may still commit."""
        going = frozenset(partitions)
        await self._announcer.revoked(going)
        self._subscriptions.assign_from_group((), going)

    async def lose_all(self) -> None:
        """Drop all partitions: the group may already have given them to other members."""
        if owned := self._subscriptions.assigned:
            await self._announcer.lost(owned)
            self._subscriptions.assign_from_group((), owned)
