"""When each broker was last heard of. In memory of the active controller only: a new one gives
everybody a full session, since it cannot know who was silent before it took over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.metadata.image import BrokerImage

NO_OFFSET = -1


class Session:
    __slots__ = ("contact_ms", "metadata_offset", "shutdown_offset")

    def __init__(self, contact_ms: float) -> None:
        self.contact_ms = contact_ms
        self.metadata_offset = NO_OFFSET
        """How far the broker has read the metadata log, as it said last."""
        self.shutdown_offset = NO_OFFSET
        """Everybody has to have read so far before the broker may go; -1 if it does not want to."""


class Sessions:
    """One a broker, by id. A broker that is fenced has none that counts."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._of: dict[int, Session] = {}
        self._resident: int | None = None

    def restart(self, brokers: Iterable[int], now_ms: float) -> None:
        """Forget everything; everybody is as if heard of now."""
        self._of = {broker_id: Session(now_ms) for broker_id in brokers}

    def begin(self, broker_id: int, now_ms: float) -> None:
        """A new process of this broker."""
        self._of[broker_id] = Session(now_ms)

    def end(self, broker_id: int) -> None:
        self._of.pop(broker_id, None)

    def settle(self, broker_id: int) -> None:
        """This broker lives in the process of the only controller, and can only die with it."""
        self._resident = broker_id

    def is_settled(self, broker_id: int) -> bool:
        """Has it registered since this process runs?"""
        return broker_id == self._resident

    def touch(self, broker_id: int, now_ms: float) -> Session:
        session = self._of.get(broker_id)
        if session is None:
            session = self._of[broker_id] = Session(now_ms)
        session.contact_ms = now_ms
        return session

    def extend(self, by_ms: float) -> None:
        """The controller itself was held up: what brokers sent meanwhile may lie unread."""
        for session in self._of.values():
            session.contact_ms += by_ms

    def is_valid(self, broker: BrokerImage, now_ms: float) -> bool:
        session = self._of.get(broker.id)
        if broker.fenced or session is None:
            return False
        return self.is_settled(broker.id) or now_ms - session.contact_ms <= self.timeout_ms

    def expired(self, brokers: Mapping[int, BrokerImage], now_ms: float) -> list[BrokerImage]:
        """Brokers that count as alive and have been silent for too long."""
        return [
            broker
            for broker in brokers.values()
            if not broker.fenced and not self.is_valid(broker, now_ms)
        ]

    def next_expiry_ms(self, brokers: Mapping[int, BrokerImage], now_ms: float) -> float:
        """When the next session may end; a whole timeout from now if none can."""
        ends = (
            session.contact_ms + self.timeout_ms
            for broker_id, session in self._of.items()
            if not self.is_settled(broker_id)
            and broker_id in brokers
            and not brokers[broker_id].fenced
        )
        return min(ends, default=now_ms + self.timeout_ms)

    def lowest_active_offset(self, brokers: Mapping[int, BrokerImage]) -> float:
        """How far every broker that may lead has read the metadata log. The one in the process of
        the only controller has read everything."""
        offsets = (
            self._of[broker.id].metadata_offset if broker.id in self._of else NO_OFFSET
            for broker in brokers.values()
            if broker.is_active and not self.is_settled(broker.id)
        )
        return min(offsets, default=float("inf"))
