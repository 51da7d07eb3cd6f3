"""Operators on single rows of a table, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.streams.operators.failures import Guard
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import NOTHING, Codec
from ottla.streams.operators.records import Record, Result


class Changes(Operator):
    """Emits the value of a row before the batch and after it."""

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        last = records[-1]
        old = NOTHING if state is None else state.value
        after = None if last.value == NOTHING else State(last.value, last.time)
        if old == last.value == NOTHING:
            return Step(None)
        return Step(after, [Result(key, last.value, last.time, other=old, origin=last)])


class TableFold(Operator):
    """Aggregates regrouped rows: subtracts the old value of a row and adds the new one."""

    def __init__(
        self,
        initial: Callable[[], Any],
        functions: tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any], Any]],
        codecs: tuple[Codec, Codec, Codec],
        guard: Guard,
    ) -> None:
        self._initial = initial
        self._adder, self._subtractor = functions
        self._key, self._change, self._aggregate = codecs
        self._guard = guard

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        results: list[Result] = []
        name = self._key.loads(key)
        text, time = (NOTHING, 0) if state is None else (state.value, state.time)
        for record in records:
            before = text
            text = self._guard.call(
                record,
                results,
                before,
                lambda: self._applied(name, before, record),  # noqa: B023
            )
            time = max(time, record.time)
        results.append(Result(key, text, time, origin=records[-1]))
        return Step(None if text == NOTHING else State(text, time), results)

    def _applied(self, key: Any, text: str, record: Record) -> str:
        change = self._change.loads(record.value)
        aggregate = None if text == NOTHING else self._aggregate.loads(text)
        if change["old"] is not None and aggregate is not None:
            aggregate = self._subtractor(key, change["old"], aggregate)
        if change["new"] is not None:
            before = self._initial() if aggregate is None else aggregate
            aggregate = self._adder(key, change["new"], before)
        return self._aggregate.dumps(aggregate)
