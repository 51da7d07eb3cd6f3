"""The interface of operators with state: small and without Spark, so that they can be tested alone.

An operator gets the records of one key at a time, in order, and the state of that key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from ottla.streams.operators.records import Record, Result


class State(NamedTuple):
    """The state of a key. Queries on the state see `value` and `time`."""

    value: str
    time: int
    more: str = ""


class Step(NamedTuple):
    """The state after a step (None forgets the key), its results, and when to look again."""

    state: State | None
    results: Sequence[Result] = ()
    due: int | None = None


class Operator(ABC):
    timed = False
    """True if keys are to be looked at again when stream time reaches a step's `due`."""
    first_side = 0

    @abstractmethod
    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        """Process the records of a batch. `now` is stream time, or -1 without stream time."""

    def look(self, key: str, state: State | None, now: int) -> Step:
        """Called when stream time has reached a step's `due`. It may be called without need."""
        return Step(state)
