"""The life of a pipeline's process, as written down and as it is.

    starting -> running -> stopping -> stopped
        |          |           |
        +----------+-----------+--> failed       (an error, or it vanished)
        +----------+--> finished                 (all that was there has been processed)

    stopped, failed, finished -> starting        (run, restart)

The process writes down its own state; only its first is written by whoever starts it. A process
that was killed writes nothing: so what is written is held against whether it is alive, each time
somebody looks.
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
    """What a process says of itself. `identity` tells it from a later one with the same pid."""

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
        """The truth: a dead process is neither starting nor running, whatever it wrote last."""
        if is_alive or self.state.is_over:
            return self
        if self.state is State.STOPPING:  # it was asked to, and is gone
            return Record(State.STOPPED, self.since, self.pid, self.identity)
        return Record(State.FAILED, self.since, self.pid, self.identity, error=VANISHED)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        return cls(**{**value, "state": State(value["state"])})
