"""The sender's state of one broker: queues that are ready, and pending requests."""

from __future__ import annotations

from ottla.client.producer.batching.partition_queue import PartitionQueue
from ottla.runtime.runtime import Timer


class Lane:
    __slots__ = ("in_flight", "is_opening", "node_id", "pause", "ready", "stuck_since", "trouble")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.ready: dict[PartitionQueue, None] = {}
        """Queues with something to send, the longest waiting first."""
        self.in_flight = 0
        """Number of requests without a response."""
        self.is_opening = False
        self.pause: Timer | None = None
        """Set while the broker throttles this client."""
        self.stuck_since: float | None = None
        """Since when there is something to send but nothing can be sent."""
        self.trouble: Exception | None = None
        """The error of the last attempt to connect."""

    def is_slow(self, now: float, limit_s: float) -> bool:
        return self.stuck_since is not None and now - self.stuck_since > limit_s

    def moves(self) -> None:
        self.stuck_since = None

    def is_stuck(self, now: float) -> None:
        if self.stuck_since is None:
            self.stuck_since = now
