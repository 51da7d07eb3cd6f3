"""Sessions of brokers: the last heartbeat of each, and whether its listeners refuse connections.

Only the active controller has them, in memory: a new one gives every broker a full session, since
it cannot know which were silent before. A session ends after `broker.session.timeout.ms` without a
heartbeat. It ends earlier if the broker missed heartbeats and its listeners refuse connections,
several times in a row: then its process is dead (decision 16).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.broker.metadata.image import BrokerImage

NO_OFFSET = -1
NEVER_MS = float("-inf")
REFUSALS_MIN: Final = 2
"""Probes in a row that were refused, after which a broker counts as dead."""


class Session:
    __slots__ = (
        "contact_ms",
        "heard_ms",
        "metadata_offset",
        "refusals",
        "refusals_count",
        "shutdown_offset",
    )

    def __init__(self, contact_ms: float) -> None:
        self.contact_ms = contact_ms
        """The session ends `timeout_ms` after this."""
        self.heard_ms = NEVER_MS
        """When this controller last heard of the broker; `contact_ms` may be later."""
        self.metadata_offset = NO_OFFSET
        """The offset up to which the broker has read the metadata log, by its last heartbeat."""
        self.shutdown_offset = NO_OFFSET
        """The offset that all brokers must have read before the broker may stop; -1 if it does not
        want to."""
        self.refusals = 0
        """Probes in a row that were refused since the last heartbeat."""
        self.refusals_count = True
        """False after a heartbeat came though probes were refused: a firewall or proxy refuses
        them, and this says nothing about the process."""

    @property
    def is_refused(self) -> bool:
        return self.refusals >= REFUSALS_MIN


class Probe(NamedTuple):
    """An attempt to reach a broker that missed heartbeats."""

    broker: BrokerImage
    session: Session
    contact_ms: float
    """The last heartbeat before the attempt."""


class Sessions:
    """The sessions of brokers by id. A fenced broker has no valid session."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._of: dict[int, Session] = {}
        self._resident: int | None = None

    def restart(self, brokers: Iterable[int], now_ms: float) -> None:
        """Drop everything and start a session for each broker now."""
        self._of = {broker_id: Session(now_ms) for broker_id in brokers}

    def begin(self, broker_id: int, now_ms: float) -> None:
        """Start the session of a new process of this broker."""
        self._of[broker_id] = Session(now_ms)
        self._of[broker_id].heard_ms = now_ms

    def end(self, broker_id: int) -> None:
        self._of.pop(broker_id, None)

    def settle(self, broker_id: int) -> None:
        """Note that this broker is in the process of the only controller, and can only die with
        it."""
        self._resident = broker_id

    def is_settled(self, broker_id: int) -> bool:
        """True if it has registered since this process started."""
        return broker_id == self._resident

    def touch(self, broker_id: int, now_ms: float) -> Session:
        """A heartbeat has arrived."""
        session = self.wait_again(broker_id, now_ms)
        session.heard_ms = now_ms
        if session.is_refused:
            session.refusals_count = False
        session.refusals = 0
        return session

    def wait_again(self, broker_id: int, now_ms: float) -> Session:
        """Restart the timeout while a heartbeat is being answered, because the broker sends the
        next one only after the answer. `heard_ms` stays: the heartbeat may have waited here."""
        session = self._of.get(broker_id)
        if session is None:
            session = self._of[broker_id] = Session(now_ms)
        session.contact_ms = now_ms
        return session

    def extend(self, by_ms: float) -> None:
        """Extend all sessions, because the controller itself was delayed: heartbeats may be
        unread."""
        for session in self._of.values():
            session.contact_ms += by_ms

    def is_valid(self, broker: BrokerImage, now_ms: float) -> bool:
        session = self._of.get(broker.id)
        if broker.fenced or session is None or session.is_refused:
            return False
        return self.is_settled(broker.id) or now_ms - session.contact_ms <= self.timeout_ms

    def silent_since(
        self, since_ms: float, broker_ids: Collection[int], brokers: Mapping[int, BrokerImage]
    ) -> list[int]:
        """Return those of `broker_ids` that count as alive and have sent nothing since then."""
        return [
            broker_id
            for broker_id in broker_ids
            if broker_id in brokers
            and not brokers[broker_id].fenced
            and not self.is_settled(broker_id)
            and (broker_id not in self._of or self._of[broker_id].heard_ms < since_ms)
        ]

    def expired(self, brokers: Mapping[int, BrokerImage], now_ms: float) -> list[BrokerImage]:
        """Return the unfenced brokers that have been silent for too long."""
        return [
            broker
            for broker in brokers.values()
            if not broker.fenced and not self.is_valid(broker, now_ms)
        ]

    def is_refused(self, broker_id: int) -> bool:
        """True if the broker's session has ended because its listeners refuse connections."""
        session = self._of.get(broker_id)
        return session is not None and session.is_refused

    def probes(
        self, brokers: Mapping[int, BrokerImage], overdue_ms: float, now_ms: float
    ) -> list[Probe]:
        """Return the brokers to probe, which count as alive and were silent for `overdue_ms`."""
        return [
            Probe(broker, session, session.contact_ms)
            for broker, session in self._probeable(brokers, now_ms)
            if now_ms - session.contact_ms >= overdue_ms
        ]

    def next_probe_ms(
        self, brokers: Mapping[int, BrokerImage], overdue_ms: float, now_ms: float
    ) -> float:
        """Return when the next broker may have to be probed. A broker that is overdue now does not
        count: it was just probed, and lives."""
        dues = (session.contact_ms + overdue_ms for _, session in self._probeable(brokers, now_ms))
        return min((due for due in dues if due > now_ms), default=now_ms + overdue_ms)

    def _probeable(
        self, brokers: Mapping[int, BrokerImage], now_ms: float
    ) -> Iterator[tuple[BrokerImage, Session]]:
        for broker in brokers.values():
            session = self._of.get(broker.id)
            if session is None or not session.refusals_count or self.is_settled(broker.id):
                continue
            if self.is_valid(broker, now_ms):
                yield broker, session

    def probed(self, probe: Probe, *, refused: bool) -> None:
        """Note the outcome, unless the broker was heard of or has registered anew meanwhile."""
        session = self._of.get(probe.broker.id)
        if session is probe.session and session.contact_ms == probe.contact_ms:
            session.refusals = session.refusals + 1 if refused else 0

    def next_expiry_ms(self, brokers: Mapping[int, BrokerImage], now_ms: float) -> float:
        """Return when the next session may end; a whole timeout from now if none can."""
        ends = (
            session.contact_ms + self.timeout_ms
            for broker_id, session in self._of.items()
            if not self.is_settled(broker_id)
            and broker_id in brokers
            and not brokers[broker_id].fenced
        )
        return min(ends, default=now_ms + self.timeout_ms)

    def lowest_active_offset(self, brokers: Mapping[int, BrokerImage]) -> float:
        """Return the offset up to which every broker that may lead has read the metadata log. A
        broker in the process of the only controller has read everything."""
        offsets = (
            self._of[broker.id].metadata_offset if broker.id in self._of else NO_OFFSET
            for broker in brokers.values()
            if broker.is_active and not self.is_settled(broker.id)
        )
        return min(offsets, default=float("inf"))
