"""Joins with tables, without Spark: the state is the newest row of each table.

Values are texts that are kept and paired, never parsed: the joiner is an expression of Spark's that
runs on the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import NOTHING
from ottla.streams.operators.records import Record, Result

LEFT, RIGHT = 0, 1


class StreamTable(Operator):
    """Joins records of the left side with the row that the right side has for their key then."""

    first_side = RIGHT

    def __init__(self, how: str) -> None:
        self._left = how == "left"

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        results = []
        for record in records:
            if record.side == RIGHT:
                state = None if record.value == NOTHING else State(record.value, record.time)
            elif record.value != NOTHING and (state is not None or self._left):
                other = NOTHING if state is None else state.value
                results.append(
                    Result(
                        key,
                        record.value,
                        record.time,
                        other=other,
                        origin=record,
                        headers=record.headers,
                    )
                )
        return Step(state, results)


class TableTable(Operator):
    """Joins each side's changes with the other's row. A pair that ends is `gone`, once."""

    def __init__(self, how: str, *, every: bool) -> None:
        self._how = how
        self._every = every

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        rows = _rows(state)
        results: list[Result] = []
        before = rows
        for record in records:
            new = (record.value, record.time)
            changed = (new, rows[RIGHT]) if record.side == LEFT else (rows[LEFT], new)
            if self._every:
                results += self._change(key, rows, changed, record)
            rows = _remembered(changed)
        if not self._every:
            results = self._change(key, before, rows, records[-1])
        return Step(_state(rows), results)

    def _change(self, key: str, before: _Rows, after: _Rows, record: Record) -> list[Result]:
        (left, left_time), (right, right_time) = after
        is_there = self._joins(after)
        if not is_there and not self._joins(before):
            return []
        time = max(left_time, right_time, record.time)
        return [Result(key, left, time, other=right, gone=not is_there, origin=record)]

    def _joins(self, rows: _Rows) -> bool:
        left, right = rows[LEFT][0] != NOTHING, rows[RIGHT][0] != NOTHING
        if self._how == "inner":
            return left and right
        return left if self._how == "left" else left or right


_Row = tuple[str, int]
_Rows = tuple[_Row, _Row]
_NEVER = 0


def _remembered(rows: _Rows) -> _Rows:
    """Drop the time of a deletion: later results must not contain it."""
    left, right = ((value, time if value != NOTHING else _NEVER) for value, time in rows)
    return left, right


def _rows(state: State | None) -> _Rows:
    if state is None:
        return (NOTHING, _NEVER), (NOTHING, _NEVER)
    time, _, value = state.more.partition(" ")
    return (state.value, state.time), (value, int(time))


def _state(rows: _Rows) -> State | None:
    (left, left_time), (right, right_time) = rows
    if left == NOTHING and right == NOTHING:
        return None
    return State(left, left_time, f"{right_time} {right}")
