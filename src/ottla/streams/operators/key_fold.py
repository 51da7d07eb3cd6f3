"""Folds each key into one aggregate; if it belongs to a window, until that window has closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.streams.operators.failures import Guard
from ottla.streams.operators.folds import Fold
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import NOTHING
from ottla.streams.operators.records import Record, Result


class KeyFold(Operator):
    def __init__(
        self, fold: Fold, guard: Guard, *, windowed: bool, every: bool = False, final: bool = False
    ) -> None:
        self._fold = fold
        self._guard = guard
        self._every = every
        self._final = final
        self.timed = windowed

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        used = [record for record in records if not self.timed or record.due > now]
        if not used:
            return Step(state)
        try:
            step = self._folded(key, state, used, checked=False)
        except Exception:
            # Go through the records again with a check on each, to find the one that failed.
            step = self._folded(key, state, used, checked=True)
        return step._replace(due=used[0].due if self.timed and state is None else None)

    def look(self, key: str, state: State | None, now: int) -> Step:
        """Handle a window that has closed."""
        if state is None or not self._final:
            return Step(None)
        return Step(None, [Result(key, state.value, state.time)])

    def _folded(
        self, key: str, state: State | None, records: Sequence[Record], *, checked: bool
    ) -> Step:
        results: list[Result] = []
        after, last = state, None
        aggregate = None if state is None else self._fold.loads(state.value)
        for record in records:
            if not checked and not self._every:
                aggregate, after, last = (
                    self._added(aggregate, record),
                    _later(after, record),
                    record,
                )
                continue
            text = self._checked(aggregate, record, results)
            if text is not None:
                after, last = _later(after, record)._replace(value=text), record
                aggregate = self._fold.loads(text)
                results += self._update(key, after, self._every, record)
        if after is None or last is None:
            return Step(state, results)
        if not checked and not self._every:
            after = after._replace(value=self._fold.dumps(aggregate))
        results += self._update(key, after, not self._every, last)
        return Step(None if after.value == NOTHING else after, results)

    def _added(self, aggregate: Any, record: Record) -> Any:
        if aggregate is None:
            return self._fold.start(record)
        return self._fold.add(aggregate, record)

    def _checked(self, aggregate: Any, record: Record, results: list[Result]) -> str | None:
        """Return the aggregate as text; None if the record was set aside."""
        nothing: str | None = None
        return self._guard.call(
            record, results, nothing, lambda: self._fold.dumps(self._added(aggregate, record))
        )

    def _update(self, key: str, state: State, wanted: bool, record: Record) -> list[Result]:
        if self._final or not wanted:
            return []
        return [Result(key, state.value, state.time, origin=record)]


def _later(state: State | None, record: Record) -> State:
    """Return the state with Kafka Streams' time: that of the newest record."""
    if state is None:
        return State(NOTHING, record.time)
    return state._replace(time=max(state.time, record.time))
