"""A replica's progress, as its leader sees it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.raft.ids import ReplicaKey

CAUGHT_UP_WITHIN_MS = 60 * 60 * 1000


@dataclass(slots=True)
class Progress:
    key: ReplicaKey
    end_offset: int | None = None
    """Everything before it is durable there; None until the replica has fetched."""
    fetched_at_ms: int | None = None
    caught_up_at_ms: int | None = None
    leader_end_at_fetch: int = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.caught_up_at_ms = now_ms
        elif 0 <= self.leader_end_at_fetch <= offset:
            # It has everything that was there at its last fetch: so it was caught up then.
            self.caught_up_at_ms = max(self.caught_up_at_ms or 0, self.fetched_at_ms or 0)
        self.leader_end_at_fetch = leader_end
        self.fetched_at_ms = now_ms
        self.end_offset = offset

    def is_caught_up(self, now_ms: int) -> bool:
        """True if it was once at the end of the log and still fetches, so it may become a voter."""
        return (
            self.caught_up_at_ms is not None
            and self.fetched_at_ms is not None
            and now_ms - self.fetched_at_ms < CAUGHT_UP_WITHIN_MS
        )
