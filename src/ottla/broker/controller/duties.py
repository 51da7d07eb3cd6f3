"""The periodic work of the active controller: fence silent and dead brokers, elect missing leaders,
and remove expired delegation tokens.

It starts when this node begins to lead the metadata log and ends when it stops leading. All its
state is soft: the next leader starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from ottla.broker.controller.broker_states import fence
from ottla.broker.controller.elect_leaders import balance_leaders, elect_leaderless
from ottla.broker.controller.sessions import Probe, Sessions
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.controller")

Duty = Callable[[float], Coroutine[Any, Any, float]]
"""`(lateness_ms) -> delay_ms` until the next run."""

MOMENT_MS: Final = 1.0
STALL_MS: Final = 500.0
"""A session check that is later than this was itself delayed, by a pause or a busy loop."""
MISSED_HEARTBEATS: Final = 2
"""A broker is probed after a silence of this many of the controller's own heartbeat intervals."""
PROBE_PAUSE_MS: Final = 100.0
"""The time between probes of a broker that refuses them."""
PROBE_TIMEOUT_S: Final = 1.0


class Duties:
    def __init__(
        self,
        metadata: MetadataLog,
        runtime: Runtime,
        sessions: Sessions,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._metadata = metadata
        self._runtime = runtime
        self._sessions = sessions
        self._config = config
        self._timers: dict[str, Timer] = {}
        self._term = 0

    def now_ms(self) -> float:
        return self._runtime.clock.now() * 1000

    def begin(self) -> None:
        """Start the timers, and give every broker a full session: this node leads now."""
        self.end()
        self._sessions.restart(self._metadata.pending.brokers, self.now_ms())
        self._later("sessions", self._sessions.timeout_ms, self._fence_silent)
        self._later("probes", self._overdue_ms, self._probe_overdue)
        self._later("elect", 0.0, self._elect)
        self._later("balance", self._balance_interval_ms(), self._balance)
        if self._config()["delegation.token.secret.key"]:
            self._later("tokens", self._token_check_interval_ms(), self._remove_expired_tokens)

    def end(self) -> None:
        self._term += 1
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Sessions

    async def _fence_silent(self, late_ms: float) -> float:
        if late_ms > STALL_MS:
            log.warning(
                "the controller was held up: broker sessions are extended", for_ms=round(late_ms)
            )
            self._sessions.extend(late_ms)
        await self._fence_expired()
        now_ms = self.now_ms()
        next_ms = self._sessions.next_expiry_ms(self._metadata.pending.brokers, now_ms)
        return max(next_ms - now_ms, MOMENT_MS)

    async def _fence_expired(self) -> None:
        for broker in self._sessions.expired(self._metadata.pending.brokers, self.now_ms()):
            await self._write(partial(self._fenced, broker_id=broker.id))

    def _fenced(self, image: MetadataImage, broker_id: int) -> Decision[None]:
        """Decide again: the broker may have sent a heartbeat since."""
        broker = image.brokers.get(broker_id)
        if broker is None or broker not in self._sessions.expired(image.brokers, self.now_ms()):
            return Decision([], None)
        records = fence(image, broker, elections_by_topic(image, self._config()))
        if self._sessions.is_refused(broker_id):
            log.warning(
                "fencing a broker: it missed heartbeats and its listeners refuse connections",
                broker=broker_id,
                partitions=len(records) - 1,
            )
        else:
            log.warning(
                "fencing a broker: it sent no heartbeat for broker.session.timeout.ms",
                broker=broker_id,
                timeout_ms=self._sessions.timeout_ms,
                partitions=len(records) - 1,
            )
        return Decision(records, None)

    # Probes

    @property
    def _overdue_ms(self) -> float:
        return float(MISSED_HEARTBEATS * self._config()["broker.heartbeat.interval.ms"])

    async def _probe_overdue(self, late_ms: float) -> float:
        """Probe brokers that missed heartbeats, except the broker of this node."""
        overdue_ms, now_ms = self._overdue_ms, self.now_ms()
        brokers = self._metadata.pending.brokers
        probes = [
            probe
            for probe in self._sessions.probes(brokers, overdue_ms, now_ms)
            if probe.broker.id != self._config().node_id
        ]
        refused = await asyncio.gather(*(self._probe(probe) for probe in probes))
        await self._fence_expired()
        if any(refused):
            return PROBE_PAUSE_MS
        now_ms = self.now_ms()
        return self._sessions.next_probe_ms(brokers, overdue_ms, now_ms) - now_ms

    async def _probe(self, probe: Probe) -> bool:
        refused = await self._is_refused(probe.broker)
        self._sessions.probed(probe, refused=refused)
        return refused

    async def _is_refused(self, broker: BrokerImage) -> bool:
        """True if every listener of the broker refuses connections. One that does not answer, or
        whose host is unknown, says nothing about the process."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                return bool(broker.endpoints) and all(
                    [await self._refuses(endpoint) for endpoint in broker.endpoints.values()]
                )
        except (OSError, UnicodeError):  # UnicodeError: a host that cannot be a name
            return False

    async def _refuses(self, endpoint: Endpoint) -> bool:
        try:
            connected = await self._runtime.network.connect(endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            return True
        connected.close()
        return False

    # Elections

    async def _balance(self, late_ms: float) -> float:
        if self._config()["auto.leader.rebalance.enable"]:
            await self._until_done(balance_leaders)
        return self._balance_interval_ms()

    def _balance_interval_ms(self) -> float:
        return float(self._config()["leader.imbalance.check.interval.seconds"] * 1000)

    async def _elect(self, late_ms: float) -> float:
        await self.elect_leaderless()
        return float(self._config()["unclean.leader.election.interval.ms"])

    async def elect_leaderless(self) -> None:
        """Elect leaders for partitions without one, unclean ones if allowed."""
        await self._until_done(
            lambda image: elect_leaderless(image, elections_by_topic(image, self._config()))
        )

    # Delegation tokens

    async def _remove_expired_tokens(self, late_ms: float) -> float:
        from ottla.broker.controller.tokens.decisions import remove_expired

        await self._until_done(lambda image: remove_expired(image, self._runtime.clock.wall_ms()))
        return self._token_check_interval_ms()

    def _token_check_interval_ms(self) -> float:
        return float(self._config()["delegation.token.expiry.check.interval.ms"])

    # Helpers

    async def _until_done(self, decide: Callable[[MetadataImage], Decision[bool]]) -> None:
        """Repeat decisions of bounded size, so that requests are answered in between."""
        while await self._write(decide):
            pass

    async def _write(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        try:
            return await self._metadata.write(decide, divisible=True)
        except KafkaError as error:
            # Another node leads now and does the same work, or the log failed and the node stops.
            log.info("a decision of the controller was not committed", reason=str(error))
            return None

    def _later(self, name: str, delay_ms: float, duty: Duty) -> None:
        """Run `duty` after a delay, and again after the delay it returns, until the term ends."""
        due_ms = self.now_ms() + delay_ms
        self._timers[name] = self._runtime.call_later(
            delay_ms / 1000, self._start, name, due_ms, self._term, duty
        )

    def _start(self, name: str, due_ms: float, term: int, duty: Duty) -> None:
        async def run() -> None:
            if term != self._term:
                return
            delay_ms = await duty(self.now_ms() - due_ms)
            if term == self._term:
                self._later(name, delay_ms, duty)

        self._runtime.spawn(run(), name=f"controller-{name}")
