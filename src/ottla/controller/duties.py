"""What the active controller does unasked: fence who is silent, and elect whom nobody elected.

It begins when this node comes to lead the metadata log and ends when it no longer does. All of it
is soft state: whoever leads next begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from ottla.config.broker import BrokerConfig
from ottla.controller.broker_states import fence
from ottla.controller.elect_leaders import balance_leaders, elect_leaderless
from ottla.controller.sessions import Sessions
from ottla.controller.unclean import elections_by_topic
from ottla.logs import get_logger
from ottla.metadata.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.metadata.log import MetadataLog
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.controller")

Duty = Callable[[float], Coroutine[Any, Any, float]]
"""Told by how many milliseconds it comes late, it says after how many it wants to come again."""

MOMENT_MS: Final = 1.0
STALL_MS: Final = 500.0
"""A check of sessions that comes later than this was held up itself, by a pause or a busy loop."""


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
        """This node leads: everybody gets a full session, and the timers run."""
        self.end()
        self._sessions.restart(self._metadata.pending.brokers, self.now_ms())
        self._later("sessions", self._sessions.timeout_ms, self._fence_silent)
        self._later("elect", 0.0, self._elect)
        self._later("balance", self._balance_interval_ms(), self._balance)

    def end(self) -> None:
        self._term += 1
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Sessions

    async def _fence_silent(self, late_ms: float) -> float:
        if late_ms > STALL_MS:
            log.warning("sessions are extended, the controller was held up", for_ms=round(late_ms))
            self._sessions.extend(late_ms)
        for broker in self._sessions.expired(self._metadata.pending.brokers, self.now_ms()):
            await self._write(partial(self._fenced, broker_id=broker.id))
        now_ms = self.now_ms()
        next_ms = self._sessions.next_expiry_ms(self._metadata.pending.brokers, now_ms)
        return max(next_ms - now_ms, MOMENT_MS)

    def _fenced(self, image: MetadataImage, broker_id: int) -> Decision[None]:
        """Decided again: it may have been heard of since."""
        broker = image.brokers.get(broker_id)
        if broker is None or broker not in self._sessions.expired(image.brokers, self.now_ms()):
            return Decision([], None)
        records = fence(image, broker, elections_by_topic(image, self._config()))
        log.warning(
            "a broker is fenced, it was not heard of for broker.session.timeout.ms",
            broker=broker_id,
            timeout_ms=self._sessions.timeout_ms,
            partitions=len(records) - 1,
        )
        return Decision(records, None)

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
        """Leaders for partitions without one that can have one; unclean ones where allowed."""
        await self._until_done(
            lambda image: elect_leaderless(image, elections_by_topic(image, self._config()))
        )

    # How

    async def _until_done(self, decide: Callable[[MetadataImage], Decision[bool]]) -> None:
        """Decisions of bounded size, so that requests are answered in between."""
        while await self._write(decide):
            pass

    async def _write(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        try:
            return await self._metadata.write(decide, divisible=True)
        except KafkaError as error:
            # Somebody else leads now and has the same duties, or the log failed and the node ends.
            log.info("a decision of the controller was not committed", reason=str(error))
            return None

    def _later(self, name: str, delay_ms: float, duty: Duty) -> None:
        """Do `duty` after a while, and again after what it returns, until the term ends."""
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
