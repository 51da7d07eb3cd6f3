"""The states of a pipeline's process, as written and as they really are.

    starting -> running -> stopping -> stopped
        |          |           |
        +----------+-----------+--> failed       (an error, or it vanished)
        +----------+--> finished                 (everything available has been processed)

    stopped, failed, finished -> starting        (run, restart)

The process writes its own state; only the first is written by the starting process. A killed
process writes nothing: so each read compares the written state with whether the process is alive.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    FINISHED = "finished"

    @property
    def is_over(self) -> bool:
        return self in (State.STOPPED, State.FAILED, State.FINISHED)


NEXT: dict[State, frozenset[State]] = {
    State.STARTING: frozenset({State.RUNNING, State.STOPPING, State.FAILED, State.FINISHED}),
    State.RUNNING: frozenset({State.STOPPING, State.FAILED, State.FINISHED}),
    State.STOPPING: frozenset({State.STOPPED, State.FAILED}),
    State.STOPPED: frozenset({State.STARTING}),
    State.FAILED: frozenset({State.STARTING}),
    State.FINISHED: frozenset({State.STARTING}),
}

VANISHED = "the process ended without a word: it was killed, or the machine went down"


@dataclass(frozen=True)
class Record:
    """The written state of a process. `identity` tells it from a later one with the same pid."""

    state: State
    since: float
    pid: int | None = None
    identity: str | None = None
    jvm_pid: int | None = None
    jvm_identity: str | None = None
    error: str | None = None

    def moved(self, state: State, now: float, error: str | None = None) -> Record:
        if state not in NEXT[self.state]:
            raise ValueError(f"a pipeline that is {self.state} cannot become {state}")
        return Record(
            state, now, self.pid, self.identity, self.jvm_pid, self.jvm_identity, error or None
        )

    def seen(self, is_alive: bool) -> Record:
        """Return the true state: a dead process is not starting or running, whatever is written."""
        if is_alive or self.state.is_over:
            return self
        if self.state is State.STOPPING:  # it was asked to stop, and is gone
            return Record(State.STOPPED, self.since, self.pid, self.identity)
        return Record(State.FAILED, self.since, self.pid, self.identity, error=VANISHED)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        return cls(**{**value, "state": State(value["state"])})
