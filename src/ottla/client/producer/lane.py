"""One broker as the sender sees it: what is ready for it, and what is under way to it."""

from __future__ import annotations

from ottla.client.producer.partition_queue import PartitionQueue
from ottla.runtime.runtime import Timer


class Lane:
    __slots__ = ("in_flight", "is_opening", "node_id", "pause", "ready", "stuck_since", "trouble")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.ready: dict[PartitionQueue, None] = {}
        """Queues with something to send, those that waited longest first."""
        self.in_flight = 0
        """Requests without an answer."""
        self.is_opening = False
        self.pause: Timer | None = None
        """Until the broker wants to hear from us again (throttling)."""
        self.stuck_since: float | None = None
        """Since when there is something to send and nothing can be sent."""
        self.trouble: Exception | None = None
        """Why the last attempt to connect failed."""

    def is_slow(self, now: float, limit_s: float) -> bool:
        return self.stuck_since is not None and now - self.stuck_since > limit_s

    def moves(self) -> None:
        self.stuck_since = None

    def is_stuck(self, now: float) -> None:
        if self.stuck_since is None:
            self.stuck_since = now
