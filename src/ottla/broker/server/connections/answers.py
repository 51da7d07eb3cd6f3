"""The answers that a client is owed: they leave in the order of its requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ottla.runtime.disk import FileSlice

if TYPE_CHECKING:
    from ottla.broker.server.connections.meter import Meter
    from ottla.broker.server.dispatch import Route
    from ottla.broker.server.figures.requests import Watch
    from ottla.broker.server.pending import Pending

UNANSWERED_REQUESTS_MAX: Final = 64
HELD_ANSWER_BYTES_MAX: Final = 256 * 1024
"""The most bytes of answers that wait for an earlier answer. Beyond this, or beyond
`UNANSWERED_REQUESTS_MAX` unanswered requests, no further request of the connection is served."""


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("chunks", "correlation_id", "meter", "pending", "ready", "route", "watch")

    def __init__(
        self,
        route: Route,
        correlation_id: int,
        pending: Pending | None,
        meter: Meter | None = None,
    ) -> None:
        """`meter`: if the client has quotas, what the request is charged by."""
        self.meter = meter
        self.route = route
        self.correlation_id = correlation_id
        self.pending = pending
        self.ready = False
        self.chunks: list[Any] = []
        self.watch: Watch | None = None
        """Measures its phases, if anybody asks for the metrics."""


class OwedAnswers:
    __slots__ = ("_kept_bytes", "slots")

    def __init__(self) -> None:
        self.slots: deque[Slot] = deque()
        self._kept_bytes = 0

    def keep(self, slot: Slot, chunks: list[Any]) -> None:
        """Keep an answer until those before it have left."""
        slot.chunks = chunks
        self._kept_bytes += _memory_of(chunks)

    def next_ready(self) -> Slot | None:
        """Return the next answer if its turn has come; it is owed no longer."""
        if not self.slots or not self.slots[0].ready:
            return None
        slot = self.slots.popleft()
        self._kept_bytes -= _memory_of(slot.chunks)
        return slot

    @property
    def is_full(self) -> bool:
        """True if so many answers are pending that no further request may be served."""
        return (
            len(self.slots) >= UNANSWERED_REQUESTS_MAX or self._kept_bytes > HELD_ANSWER_BYTES_MAX
        )

    @property
    def holds_connection(self) -> bool:
        """True if an answer is pending that later requests have to wait for."""
        return any(
            slot.pending is not None and slot.pending.holds_connection for slot in self.slots
        )

    def abandon(self) -> None:
        """Owe nothing any more, because the client is gone."""
        for slot in self.slots:
            if slot.pending is not None:
                slot.pending.abandon()
        self.slots.clear()


def _memory_of(chunks: list[Any]) -> int:
    """Return the bytes that an answer takes. Slices of files take none."""
    return sum(len(chunk) for chunk in chunks if not isinstance(chunk, FileSlice))
