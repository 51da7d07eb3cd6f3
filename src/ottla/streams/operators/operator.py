"""What an operator with state is to the engine: small, and without Spark, to be tested alone.

An operator sees the records of one key at a time, in order, and what it remembers of that key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from ottla.streams.operators.records import Record, Result


class State(NamedTuple):
    """What is remembered of a key. `value` and `time` are what queries on the state see."""

    value: str
    time: int
    more: str = ""


class Step(NamedTuple):
    """The state after it (None forgets the key), what to give out, and when to look again."""

    state: State | None
    results: Sequence[Result] = ()
    due: int | None = None


class Operator(ABC):
    timed = False
    """Looks at keys again when stream time has passed what it asked for."""
    first_side = 0

    @abstractmethod
    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        """The records of a batch. `now` is stream time; without time -1."""

    def look(self, key: str, state: State | None, now: int) -> Step:
        """Stream time has reached what a step asked for. May come without need."""
        return Step(state)
