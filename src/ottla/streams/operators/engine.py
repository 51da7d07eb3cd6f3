"""Runs operators in Spark's transformWithState, many keys together.

Spark calls Python once for each group of rows, which takes some 0.7 ms. So rows are grouped by
bucket, not by key: a bucket's state is a map from keys to their state, and the reads and writes of
a bucket's keys are sent together. The number of buckets is part of the checkpoint: it must stay the
same.

Late records are not dropped by Spark here: times are passed as numbers, without the mark that
`withWatermark` sets on its column, so the operator itself decides by stream time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import DataType

from ottla.streams.operators import state
from ottla.streams.operators.agenda import Agenda
from ottla.streams.operators.frames import ERROR, ERROR_KIND, HEADERS, OLD, watermarked, with_place
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import OPTIONS, check_packable, packed, unpacked
from ottla.streams.operators.records import NOWHERE, PART, RESULT_FIELDS, Record, in_order

BUCKETS = 32
STATE = "state"

_Text = Row("row")


@dataclass(frozen=True)
class Input:
    """An input frame. `due` is the end of a record's window."""

    frame: DataFrame
    side: int = 0
    due: Column | None = None
    headers: bool = False


def run(
    inputs: Sequence[Input],
    operator: Operator,
    *,
    grace_ms: int | None = None,
    buckets: int = BUCKETS,
) -> DataFrame:
    """Run the operator; `Columns` reads the results. With `grace_ms` there is stream time."""
    mode = "None" if grace_ms is None else "EventTime"
    text = grouped_rows(inputs, grace_ms, buckets).transformWithState(
        _Buckets(operator), "row string", "Update", mode
    )
    return in_parts(text)


def in_parts(text: DataFrame) -> DataFrame:
    """Split the text in its own step; otherwise Spark would split it once per column."""
    return text.select(F.split("row", PART).alias("parts"))


def grouped_rows(inputs: Sequence[Input], grace_ms: int | None, buckets: int) -> GroupedData:
    """Return the records as text, grouped by bucket."""
    rows = reduce(DataFrame.unionAll, [_rows(one, grace_ms, buckets) for one in inputs])
    return rows.groupBy("bucket")


def _rows(given: Input, grace_ms: int | None, buckets: int) -> DataFrame:
    for name in ("key", "value"):
        check_packable(given.frame.schema[name].dataType, name)
    frame = with_place(given.frame)
    if grace_ms is not None:
        frame = watermarked(frame, grace_ms)
    nowhere = F.lit(NOWHERE)
    headers = packed(F.col("headers")) if given.headers and "headers" in frame.columns else None
    fields = [
        F.lit(given.side),
        F.unix_millis("timestamp"),
        F.coalesce("__partition", nowhere),
        F.coalesce("__offset", nowhere),
        nowhere if given.due is None else F.unix_millis(given.due),
        F.coalesce("__topic", F.lit("")),
        F.lit("") if headers is None else headers,
        packed(F.col("key")),
        packed(F.col("value")),
    ]
    row = F.concat_ws(PART, *(field.cast("string") for field in fields))
    # Spark cannot hash maps.
    has_map = "map<" in given.frame.schema["key"].dataType.simpleString()
    hashed = F.xxhash64(packed(F.col("key")) if has_map else F.col("key"))
    bucket = F.pmod(hashed, F.lit(buckets)).cast("int")
    return frame.select(bucket.alias("bucket"), row.alias("row"))


class Columns:
    """The fields of results, as columns."""

    def __init__(self) -> None:
        parts = F.col("parts")
        self._parts = {name: parts[number] for number, name in enumerate(RESULT_FIELDS)}

    def value(self, name: str, kind: DataType) -> Column:
        """Return a field; null if the record failed: `errors` has the record with its own type."""
        return unpacked(F.when(~self._failed, self._parts[name]), kind)

    @property
    def _failed(self) -> Column:
        return self._parts["error_kind"] != ""

    def moment(self, name: str) -> Column:
        return F.timestamp_millis(self._parts[name].cast("long"))

    @property
    def gone(self) -> Column:
        return self._parts["gone"] != ""

    def usual(self, headers: bool = False) -> list[Column]:
        """Return `timestamp`, `headers` and the origin of the record that made the result."""
        place = [
            F.nullif(self._parts["topic"], F.lit("")).alias("__topic"),
            *(self._number(name) for name in ("partition", "offset")),
        ]
        shown = self._headers() if headers else F.lit(None).cast(HEADERS)
        return [self.moment("time").alias("timestamp"), shown.alias("headers"), *place]

    def _headers(self) -> Column:
        text = F.nullif(self._parts["headers"], F.lit(""))
        return F.from_json(text, f"v {HEADERS}", OPTIONS).getField("v")

    def _number(self, name: str) -> Column:
        number = self._parts[name].cast("int" if name == "partition" else "long")
        return F.nullif(number, F.lit(NOWHERE)).alias(f"__{name}")

    def errors(self, key: DataType, value: DataType) -> list[Column]:
        """Return the error, if any, and the record as it was."""
        failed = self._failed
        old = F.struct(
            unpacked(F.when(failed, self._parts["key"]), key).alias("key"),
            unpacked(F.when(failed, self._parts["other"]), value).alias("value"),
        )
        return [
            F.when(failed, self._parts["error_kind"]).alias(ERROR_KIND),
            F.when(failed, self._parts["error"]).alias(ERROR),
            F.when(failed, old).alias(OLD),
        ]


class _Buckets(StatefulProcessor):
    """Runs in Spark's Python workers, a new one for each task."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = state.KeyedState(handle.getMapState(STATE, state.KEY, state.VALUE))
        self._agenda = Agenda(handle) if self._operator.timed else None

    def handleInputRows(
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: TimerValues,
    ) -> Iterator[Row]:
        now = timerValues.getCurrentWatermarkInMs()
        groups: dict[str, list[Record]] = {}
        for row in rows:
            record = Record.read(row[1])
            groups.setdefault(record.key, []).append(record)
        take, first = self._operator.take, self._operator.first_side
        before = self._states.read(list(groups))
        steps = {
            key: take(key, before[key], in_order(records, first), now)
            for key, records in groups.items()
        }
        return self._done(before, steps)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        if self._agenda is None:
            return iter(())
        now = timerValues.getCurrentWatermarkInMs()
        before = self._states.read(self._agenda.take(expiredTimerInfo.getExpiryTimeInMs()))
        steps = {key: self._operator.look(key, known, now) for key, known in before.items()}
        return self._done(before, steps)

    def _done(self, before: dict[str, State | None], steps: dict[str, Step]) -> Iterator[Row]:
        self._states.write(
            [(key, step.state) for key, step in steps.items() if step.state != before[key]]
        )
        if self._agenda is not None:
            self._agenda.add(
                [(step.due, key) for key, step in steps.items() if step.due is not None]
            )
        return (_Text(result.text()) for step in steps.values() for result in step.results)
