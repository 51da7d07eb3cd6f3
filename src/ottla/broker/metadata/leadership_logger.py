"""Logs the leadership of the metadata log: the leader at INFO; as warnings, that the leader is
silent, that there is no leader, and for how long there was none."""

from __future__ import annotations

from typing import Final

from ottla.broker.raft.effects import LeaderAndEpoch, LostLeader
from ottla.broker.raft.ids import NO_LEADER
from ottla.logs import get_logger
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.metadata")

FIRST_REMINDER_S: Final = 2.0
REMINDER_S: Final = 30.0
"""The time between warnings that there is still no leader."""


class LeadershipLogger:
    def __init__(self, runtime: Runtime, node_id: int) -> None:
        self._runtime = runtime
        self._node_id = node_id
        self._last_leader = NO_LEADER
        self._silent_since_s: float | None = None
        """When a leader was last heard of; None while one is known, and before the first one."""
        self._was_told = False
        """True if a warning said that the leader is lost: then the new leader is logged as a
        warning too."""
        self._timer: Timer | None = None
        self._closed = False

    def lost(self, lost: LostLeader) -> None:
        """Log that the leader was silent for too long, or that this node leads and no majority
        fetches."""
        if self._closed:
            return
        self._was_told = True
        self._begin_silence(lost.silent_ms / 1000)
        if lost.leader_id == self._node_id:
            log.warning(
                "no majority of the controllers has fetched from this node, which leads the "
                "metadata log, for %d ms: it resigns",
                lost.silent_ms,
            )
        else:
            log.warning(
                "the leader of the metadata log, node %d, %s for %d ms: looking for another one",
                lost.leader_id,
                "is gone: nobody listens at its address, and it has not answered"
                if lost.is_gone
                else "has not answered",
                lost.silent_ms,
            )

    def changed(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id == NO_LEADER:
            log.info("epoch %d of the metadata log has no leader yet", leader.epoch)
            if self._last_leader != NO_LEADER:
                self._begin_silence(0)
            return
        since_s, was_told = self._silent_since_s, self._was_told
        self._end_silence()
        self._last_leader = leader.leader_id
        if since_s is not None and was_told:
            log.warning(
                "node %d leads the metadata log in epoch %d, after %.1f s without a leader",
                *leader,
                self._runtime.clock.now() - since_s,
            )
        else:
            log.info("node %d leads the metadata log in epoch %d", *leader)

    def close(self) -> None:
        """Stop warning, because this node itself is stopping."""
        self._closed = True
        self._end_silence()

    def _begin_silence(self, already_s: float) -> None:
        if self._silent_since_s is None and not self._closed:
            self._silent_since_s = self._runtime.clock.now() - already_s
            self._timer = self._runtime.call_later(FIRST_REMINDER_S, self._remind)

    def _end_silence(self) -> None:
        self._silent_since_s = None
        self._was_told = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remind(self) -> None:
        if self._silent_since_s is None:
            return
        self._was_told = True
        log.warning(
            "no controller has been active for %.0f s; node %d was the last one",
            self._runtime.clock.now() - self._silent_since_s,
            self._last_leader,
        )
        self._timer = self._runtime.call_later(REMINDER_S, self._remind)
