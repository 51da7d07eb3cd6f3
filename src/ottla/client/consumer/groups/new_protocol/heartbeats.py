"""The heartbeats of a member of the new protocol: they carry all it tells its coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.client.consumer.groups.errors import explained
from ottla.client.consumer.groups.heartbeat_task import HeartbeatTask
from ottla.client.consumer.groups.metrics import MembershipMetrics
from ottla.client.consumer.groups.new_protocol.state import NewProtocolState, Next, Phase, Wanted
from ottla.client.consumer.groups.polls import PollWatch
from ottla.client.errors import UnsupportedVersion
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.settings.consumer import ConsumerSettings
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")


class Heartbeats(HeartbeatTask):
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        state: NewProtocolState,
        polls: PollWatch,
        metrics: MembershipMetrics,
        *,
        wanted: Callable[[], Wanted],
        attention: Callable[[], None],
        expired: Callable[[], Awaitable[None]],
    ) -> None:
        """`wanted` returns the subscription; `expired` is called if polls stop."""
        assert settings.group_id is not None
        super().__init__(settings.group_id)
        self._cluster = cluster
        self._settings = settings
        self._state = state
        self._polls = polls
        self._metrics = metrics
        self._wanted = wanted
        self._attention = attention
        self._expired = expired
        self._interval_s = settings.heartbeat_interval_ms / 1000
        """The interval until the coordinator sets one."""
        self._pauses = cluster.pauses()
        self._due = asyncio.Event()

    def beat_now(self) -> None:
        """Send a heartbeat now, because there is something to report."""
        self._due.set()

    async def _run(self) -> None:
        while True:
            if self._state.phase in (Phase.OUT, Phase.LOST):
                await self._due.wait()
            self._due.clear()
            if await self._polls.has_expired():
                log.warning("group %s: %s", self._group_id, self._polls.advice)
                await self._expired()
                self._attention()
                continue
            pause_s = await self._beat()
            await self._pause(min(pause_s, self._polls.remaining_s()))

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._due.wait()
        except TimeoutError:
            pass

    async def _beat(self) -> float:
        """Send a heartbeat, and return the delay until the next one."""
        try:
            after = await self._exchange()
        except Exception as error:
            self._state.forget_sent()
            if not may_pass(error):
                self._fail(error)
                return self._interval_s
            log.info("group %s: no heartbeat: %s", self._group_id, error)
            after = Next.ELSEWHERE
        if after is Next.ELSEWHERE:
            self._cluster.forget_coordinator(CoordinatorType.GROUP, self._group_id)
        if after in (Next.ELSEWHERE, Next.LATER):
            return self._pauses.next_s(self._cluster.runtime.random)
        self._pauses.reset()
        if after is Next.REJOIN:
            self._attention()
        return self._interval_s

    async def _exchange(self) -> Next | None:
        from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        state = self._state
        connection = await self._coordinator()
        term = state.term
        if state.phase in (Phase.OUT, Phase.LOST):
            return None
        try:
            version = connection.version_of(ConsumerGroupHeartbeatRequest)
        except UnsupportedVersion as error:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{error}: it has no groups of the new protocol, use group_protocol='classic'",
            ) from error
        request = state.request(self._wanted(), version)
        self._metrics.heartbeat_sent()
        with self._metrics.timed("heartbeat-response-time"):
            answer = await connection.request(request, version=version)
        if state.term != term:
            return None  # joined or left meanwhile: the response is out of date
        if answer.error_code:
            return state.refused(ErrorCode.of(answer.error_code), answer.error_message)
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if state.answered(answer):
            self._metrics.rebalance_began()
            self._attention()
        return None

    async def _coordinator(self) -> Connection:
        try:
            return await self._cluster.coordinator(CoordinatorType.GROUP, self._group_id)
        except KafkaError as error:
            raise explained(error.code, self._settings) from error

    def _fail(self, error: Exception) -> None:
        log.error("group %s: %s", self._group_id, error)
        self.failure = error
        self._attention()
