"""Sends heartbeats to the coordinator of a classic group, and leaves the group if the application
stops polling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.client.consumer.groups.classic.requests import heartbeat_request
from ottla.client.consumer.groups.classic.state import ClassicState, Next
from ottla.client.consumer.groups.commit_requests import MemberIdentity
from ottla.client.consumer.groups.heartbeat_task import HeartbeatTask
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.consumer.groups.polls import PollWatch
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.settings.consumer import ConsumerSettings
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client.group")


class Heartbeats(HeartbeatTask):
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        state: ClassicState,
        polls: PollWatch,
        metrics: MembershipMetrics,
        *,
        attention: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        assert settings.group_id is not None
        super().__init__(settings.group_id)
        self._cluster = cluster
        self._settings = settings
        self._state = state
        self._polls = polls
        self._metrics = metrics
        self._attention = attention
        self._leave = leave
        self._pauses = cluster.pauses()

    async def _run(self) -> None:
        pause_s = self._interval_s
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self._interval_s
            if not self._state.beats:
                continue
            if await self._polls.has_expired():
                log.warning("group %s: %s", self._group_id, self._polls.advice)
                await self._leave("max_poll_interval_ms has passed without a poll")
                self._attention()
            else:
                pause_s = min(await self._beat(), self._polls.remaining_s())

    @property
    def _interval_s(self) -> float:
        return self._settings.heartbeat_interval_ms / 1000

    async def _beat(self) -> float:
        """Send a heartbeat, and return the delay until the next one."""
        sent = self._state.identity
        try:
            after = self._judge(await self._send(sent), sent)
        except Exception as error:
            if not may_pass(error):
                self._fail(error)
                return self._interval_s
            log.info("group %s: no heartbeat: %s", self._group_id, error)
            after = Next.ELSEWHERE
        if after is Next.ELSEWHERE:
            self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
        if after in (Next.ELSEWHERE, Next.LATER):
            return min(self._pauses.next_s(self._cluster.runtime.random), self._interval_s)
        self._pauses.reset()
        return self._interval_s

    async def _send(self, sent: MemberIdentity) -> ErrorCode:
        from ottla.protocol.messages.heartbeat import HeartbeatRequest

        connection = await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)
        version = connection.version_of(HeartbeatRequest)
        request = heartbeat_request(self._group_id, sent, version)
        # A coordinator that does not answer for that long has removed this member.
        limit_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms)
        self._metrics.heartbeat_sent()
        with self._metrics.timed("heartbeat-response-time"):
            answer = await connection.request(request, version=version, timeout_ms=limit_ms)
        return ErrorCode.of(answer.error_code)

    def _judge(self, code: ErrorCode, sent: MemberIdentity) -> Next | None:
        if not code:
            return None
        before = self._state.rejoin_reason
        after = self._state.heartbeat_refused(code, sent)
        if self._state.rejoin_reason is not before:
            self._attention()
        return after

    def _fail(self, error: Exception) -> None:
        log.error("group %s: %s", self._group_id, error)
        self.failure = error
        self._attention()
