"""Operators with state without Spark, on many random histories, against plain models."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import models
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Batches, Pair, Rec, Update
from pyspark.sql.types import ArrayType, LongType, StringType

from ottla.streams.operators.agenda import Agenda
from ottla.streams.operators.failures import FunctionFailed, Guard
from ottla.streams.operators.folds import Aggregating, Fold
from ottla.streams.operators.key_fold import KeyFold
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import Codec
from ottla.streams.operators.pairs import StreamTable, TableTable
from ottla.streams.operators.records import Record, Result, in_order
from ottla.streams.operators.sessions import SessionFold
from ottla.streams.operators.sliding import SlidingFold
from ottla.streams.operators.state import TOGETHER, TOGETHER_BYTES, KeyedState, _chunks
from ottla.streams.operators.suppress import Held

GRACE = 5
GUARD = Guard("node", set_aside=False)
KEY, VALUE = Codec(StringType(), "key"), Codec(LongType(), "value")


def sorted_values() -> Fold:
    return Aggregating(
        list,
        lambda key, value, before: sorted([*before, value]),
        lambda key, one, other: sorted(one + other),
        KEY.loads,
        VALUE,
        Codec(ArrayType(LongType()), "result"),
    )


def as_record(rec: Rec, offset: int, due: int = -1) -> Record:
    return Record(
        rec.side, rec.at, 0, offset, due, "", "", KEY.dumps(rec.key), VALUE.dumps(rec.value)
    )


class Engine:
    """What the engine in Spark does with an operator, for one bucket."""

    def __init__(self, operator: Operator, grace: int = GRACE) -> None:
        self._operator = operator
        self._clock = models.Clock(grace)
        self._states: dict[str, State | None] = {}
        self._agenda: dict[int, set[str]] = defaultdict(set)
        self._offset = 0

    def batch(self, records: Sequence[Record], recs: Sequence[Rec]) -> list[Result]:
        now, results = self._clock.now, []
        groups = defaultdict(list)
        for record in records:
            groups[record.key].append(record)
        for key, group in groups.items():
            ordered = in_order(group, self._operator.first_side)
            results += self._apply(
                key, self._operator.take(key, self._states.get(key), ordered, now)
            )
        for due in sorted(self._agenda):
            if due <= now and self._operator.timed:
                for key in self._agenda.pop(due):
                    step = self._operator.look(key, self._states.get(key), now)
                    results += self._apply(key, step)
        self._clock.end(recs)
        return results

    def _apply(self, key: str, step: Step) -> Sequence[Result]:
        if step.state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = step.state
        if step.due is not None:
            assert step.due > 0
            self._agenda[step.due].add(key)
        return step.results

    @property
    def remembered(self) -> int:
        return len(self._states)


def drive(operator: Operator, batches: Batches, grace: int = GRACE) -> list[list[Result]]:
    engine, offset, outputs = Engine(operator, grace), 0, []
    for batch in batches:
        records = [as_record(rec, offset + number) for number, rec in enumerate(batch)]
        offset += len(batch)
        outputs.append(engine.batch(records, batch))
    return outputs


def loaded(text: str) -> Any:
    return json.loads(text)["v"] if text else None


def updates(outputs: Sequence[Sequence[Result]]) -> list[list[Update]]:
    def update(one: Result) -> Update:
        window = None if one.start is None or one.end is None else (one.start, one.end)
        return Update(loaded(one.key), loaded(one.value), one.time, window)

    return [[update(one) for one in results] for results in outputs]


def pairs(outputs: Sequence[Sequence[Result]]) -> list[list[Pair]]:
    def pair(one: Result) -> Pair:
        return Pair(loaded(one.key), loaded(one.value), loaded(one.other), one.time, one.gone)

    return [[pair(one) for one in results] for results in outputs]


def in_any_order(outputs: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [sorted(map(str, results)) for results in outputs]


def histories(values: st.SearchStrategy[Any], sides: int = 1) -> st.SearchStrategy[list[list[Rec]]]:
    """Batches of records whose times run on, with some that come late."""
    keys = st.sampled_from("ab")
    rec = st.tuples(keys, values, st.integers(-12, 12), st.integers(0, sides - 1))
    batches = st.lists(st.lists(rec, max_size=6), min_size=1, max_size=7)

    def timed(given: list[list[tuple[str, Any, int, int]]]) -> list[list[Rec]]:
        made = [
            [Rec(key, value, 100 + 7 * number + late, side) for key, value, late, side in batch]
            for number, batch in enumerate(given)
        ]
        return [*made, [], [Rec("c", 0, 10_000)], []]

    return batches.map(timed)


NUMBERS = histories(st.integers(0, 9))
TABLES = histories(st.one_of(st.none(), st.integers(0, 9)), sides=2)
MANY = settings(max_examples=150, deadline=None)


@MANY
@given(NUMBERS, st.sampled_from((4, 9)), st.booleans())
def test_sessions_grow_merge_and_close_as_in_the_model(
    batches: Batches, gap: int, final: bool
) -> None:
    made = drive(SessionFold(gap, sorted_values(), GUARD, final=final), batches)
    wanted = models.by_session(batches, sorted, gap, GRACE, final=final)
    assert in_any_order(updates(made)) == in_any_order(wanted)


def test_a_session_that_has_closed_becomes_part_of_one_that_has_not_whenever_timers_ran() -> None:
    batches = [[Rec("k", 1, 5000), Rec("c", 0, 6300)], [], [Rec("k", 2, 5900)], [Rec("c", 0, 8000)]]
    engine = Engine(SessionFold(1000, sorted_values(), GUARD), grace=0)
    outputs = [
        engine.batch([as_record(rec, 10 * at + n) for n, rec in enumerate(batch)], batch)
        for at, batch in enumerate(batches)
    ]
    assert updates(outputs)[2] == [
        Update("k", None, 5000, (5000, 5000)),
        Update("k", [1, 2], 5900, (5000, 5900)),
    ]
    assert engine.remembered == 2
    engine.batch([], [])
    assert engine.remembered == 1, "k is out of reach of whatever may come"


@MANY
@given(NUMBERS, st.booleans())
def test_sliding_windows_hold_the_records_of_the_model(batches: Batches, final: bool) -> None:
    made = drive(SlidingFold(6, sorted_values(), GUARD, final=final), batches)
    wanted = models.by_sliding(batches, sorted, 6, GRACE, final=final)
    assert in_any_order(updates(made)) == in_any_order(wanted)


@MANY
@given(NUMBERS)
def test_nothing_of_closed_windows_is_remembered(batches: Batches) -> None:
    for operator in (
        SessionFold(4, sorted_values(), GUARD),
        SlidingFold(6, sorted_values(), GUARD),
    ):
        engine = Engine(operator)
        for number, batch in enumerate([*batches, [Rec("c", 0, 20_000)], [], []]):
            records = [as_record(rec, 100 * number + at) for at, rec in enumerate(batch)]
            engine.batch(records, batch)
        assert engine.remembered <= 1  # the last record's key


@MANY
@given(NUMBERS, st.booleans())
def test_with_every_record_the_last_update_of_a_batch_is_the_one_it_would_give_alone(
    batches: Batches, sessions: bool
) -> None:
    fold = sorted_values()

    def operator(every: bool) -> Operator:
        if sessions:
            return SessionFold(4, fold, GUARD, every=every)
        return SlidingFold(6, fold, GUARD, every=every)

    for each, together in zip(
        drive(operator(True), batches), drive(operator(False), batches), strict=True
    ):
        last = {(one.key, one.start, one.end): one.value for one in each}
        for one in together:
            assert last[one.key, one.start, one.end] == one.value


@MANY
@given(TABLES, st.sampled_from(["inner", "left"]))
def test_streams_meet_the_row_that_a_table_has_just_then(batches: Batches, how: str) -> None:
    made = pairs(drive(StreamTable(how), batches))
    assert in_any_order(made) == in_any_order(models.stream_table(batches, how))


@MANY
@given(TABLES, st.sampled_from(["inner", "left", "outer"]), st.booleans())
def test_joined_tables_change_with_either_side(batches: Batches, how: str, every: bool) -> None:
    made = pairs(drive(TableTable(how, every=every), batches))
    assert in_any_order(made) == in_any_order(models.table_table(batches, how, every=every))


@MANY
@given(histories(st.one_of(st.none(), st.integers(0, 9))))
def test_changes_are_held_back_until_the_limit(batches: Batches) -> None:
    made = updates(drive(Held(15), batches, grace=0))
    assert in_any_order(made) == in_any_order(models.held_back(batches, 15))


def test_the_oldest_of_the_records_next_in_line_is_taken_first() -> None:
    def record(side: int, at: int, offset: int) -> Record:
        return Record(side, at, 0, offset, -1, "", "", "", "")

    stream = [record(0, 50, 0), record(0, 10, 1), record(0, 60, 2)]
    table = [record(1, 20, 0), record(1, 50, 1)]
    order = [(one.side, one.offset) for one in in_order([*stream, *table], first_side=1)]
    assert order == [(1, 0), (1, 1), (0, 0), (0, 1), (0, 2)]


def failing_fold(failing: int) -> Fold:
    def add(key: str, value: int, total: int) -> int:
        if value == failing:
            raise ValueError(f"{value} is too much")
        return total + value

    return Aggregating(int, add, lambda k, a, b: a + b, KEY.loads, VALUE, Codec(LongType(), "sum"))


def operators(fold: Fold, guard: Guard) -> list[Operator]:
    return [
        KeyFold(fold, guard, windowed=False),
        KeyFold(fold, guard, windowed=False, every=True),
        SessionFold(100, fold, guard),
        SlidingFold(100, fold, guard),
    ]


def test_a_function_that_raises_is_told_with_its_operator_and_record() -> None:
    batch = [Rec("a", 1, 500), Rec("a", 7, 501), Rec("a", 2, 502)]
    for operator in operators(failing_fold(7), Guard("totals", set_aside=False)):
        with pytest.raises(FunctionFailed, match="totals: ValueError: 7 is too much") as caught:
            drive(operator, [batch])
        assert 'partition 0, offset 1, key "a"' in str(caught.value)


def test_a_record_that_fails_is_set_aside_and_the_others_count() -> None:
    batches = [[Rec("a", 1, 500), Rec("a", 7, 501)], [Rec("a", 7, 503), Rec("a", 2, 502)]]
    for operator in operators(failing_fold(7), Guard("totals", set_aside=True)):
        results = [one for output in drive(operator, batches) for one in output]
        letters = [one for one in results if one.error_kind]
        assert [(one.error_kind, loaded(one.other)) for one in letters] == [("ValueError", 7)] * 2
        newest = max((one for one in results if not one.error_kind), key=lambda one: one.time)
        assert (loaded(newest.value), newest.time) == (3, 502)


def test_a_result_of_the_wrong_type_is_told_by_name() -> None:
    fold = Aggregating(
        int, lambda k, v, total: "much", None, KEY.loads, VALUE, Codec(LongType(), "the sum")
    )
    with pytest.raises(FunctionFailed, match="the sum is 'much', which is no bigint"):
        drive(KeyFold(fold, GUARD, windowed=False), [[Rec("a", 1, 500)]])


class Map:
    """A map of Spark's, without the parts of PySpark that are not public."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.getValue = self.rows.get

    def updateValue(self, key: tuple[Any, ...], row: tuple[Any, ...]) -> None:
        self.rows[key] = row

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self.rows.pop(key, None)

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.rows.items())


class Handle:
    def __init__(self) -> None:
        self.map = Map()
        self.timers: list[int] = []
        self.registerTimer = self.timers.append

    def getMapState(self, name: str, key: str, value: str) -> Map:
        return self.map


def test_state_is_kept_without_the_parts_that_are_not_public() -> None:
    states = KeyedState(Map())  # type: ignore[arg-type]
    states.write([("a", State("1", 1)), ("b", State("2", 2, "more"))])
    states.write([("a", None), ("c", State("3", 3))])
    wanted = {"a": None, "b": State("2", 2, "more"), "c": State("3", 3)}
    assert states.read(["a", "b", "c"]) == wanted
    assert dict(states.items()) == {key: one for key, one in wanted.items() if one}


def test_what_is_asked_together_fits_into_a_socket() -> None:
    requests = [bytes(size) for size in [10] * 200 + [9000, 9000, 50_000, 10]]
    chunks = list(_chunks(requests))
    assert [one for chunk in chunks for one in chunk] == requests
    assert all(len(chunk) <= TOGETHER for chunk in chunks)
    assert all(len(chunk) == 1 or sum(map(len, chunk)) <= TOGETHER_BYTES for chunk in chunks)


def test_keys_that_are_due_together_share_a_timer() -> None:
    handle = Handle()
    agenda = Agenda(handle)  # type: ignore[arg-type]
    agenda.add([(10, "a"), (20, "b"), (10, "c")])
    agenda.add([(10, "d"), (10, "a")])
    assert handle.timers == [10, 20]
    assert agenda.take(10) == ["d", "a", "c"]
    assert agenda.take(10) == []
    assert agenda.take(20) == ["b"]
    assert not handle.map.rows
