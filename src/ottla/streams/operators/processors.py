"""Processors with stores and schedules, Kafka Streams' Processor API, on transformWithState.

A task of Kafka Streams has a partition; here it has a bucket of keys: its processor gets the
records of the bucket in order, its stores hold what the bucket's records put there, and its
schedules run for the bucket. Spark creates it again for every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

from ottla.streams.operators import state
from ottla.streams.operators.context import (
    STREAM_TIME,
    WALL_CLOCK,
    Codecs,
    Context,
    Processor,
    ProcessorRecord,
)
from ottla.streams.operators.engine import BUCKETS, Columns, Input, grouped_rows, in_parts
from ottla.streams.operators.failures import MARK, FunctionFailed, Guard
from ottla.streams.operators.packing import Codec
from ottla.streams.operators.records import Record, Result, in_order
from ottla.streams.operators.stores import Declaration, Entries, KeyValues, store_of

_MODES = {None: "None", STREAM_TIME: "EventTime", WALL_CLOCK: "ProcessingTime"}
_NEXT = "schedules"

_Text = Row("row")


@dataclass(frozen=True)
class Settings:
    """`time` is the clock of schedules. Stream time is `grace_ms` behind the newest record."""

    stores: Sequence[Declaration] = ()
    time: str | None = None
    grace_ms: int = 0
    node: str = "process"
    set_aside: bool = False
    buckets: int = BUCKETS


def process(
    frame: DataFrame,
    factory: Callable[[], Processor],
    key: DataType,
    value: DataType,
    settings: Settings | None = None,
) -> DataFrame:
    """Return what the processor forwards, with these types of key and value. Use update mode."""
    settings = settings or Settings()
    _check(settings)
    schema = frame.schema
    codecs = _codecs(schema, key, value)
    grace = settings.grace_ms if settings.time == STREAM_TIME else None
    given = Input(frame, headers=True)
    text = grouped_rows([given], grace, settings.buckets).transformWithState(
        _Processing(factory, codecs, settings), "row string", "Update", _MODES[settings.time]
    )
    columns = Columns()
    shown = [
        columns.value("key", key).alias("key"),
        columns.value("value", value).alias("value"),
        *columns.usual(headers=True),
    ]
    if settings.set_aside:
        shown += columns.errors(schema["key"].dataType, schema["value"].dataType)
    return in_parts(text).select(*shown)


def _check(settings: Settings) -> None:
    if settings.time not in _MODES:
        raise ValueError(f"time is {settings.time!r}: it must be {STREAM_TIME!r} or {WALL_CLOCK!r}")
    for store in settings.stores:
        if store.ttl_ms is not None and settings.time != WALL_CLOCK:
            raise ValueError(
                f"the store {store.name!r} forgets after {store.ttl_ms} ms of wall-clock time: the"
                f" processor needs time={WALL_CLOCK!r}"
            )


def _codecs(schema: StructType, key: DataType, value: DataType) -> Codecs:
    header = StructType().add("key", StringType()).add("value", BinaryType())
    return Codecs(
        Codec(schema["key"].dataType, "key"),
        Codec(schema["value"].dataType, "value"),
        Codec(ArrayType(header), "headers"),
        Codec(key, "the key forwarded"),
        Codec(value, "the value forwarded"),
    )


class _Processing(StatefulProcessor):
    """Runs in Spark's Python workers, a new one for each task."""

    def __init__(
        self, factory: Callable[[], Processor], codecs: Codecs, settings: Settings
    ) -> None:
        self._factory = factory
        self._codecs = codecs
        self._settings = settings
        self._guard = Guard(settings.node, settings.set_aside)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._entries = {
            one.name: Entries(
                state.KeyedState(handle.getMapState(one.name, state.KEY, state.VALUE, one.ttl_ms))
            )
            for one in self._settings.stores
        }
        self._next = handle.getValueState(_NEXT, "times array<bigint>")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: TimerValues,
    ) -> Iterator[Row]:
        records = in_order(Record.read(row[1]) for row in rows)
        context = self._context(list(dict.fromkeys(record.key for record in records)))
        context.now_ms = self._now(timerValues)
        processor = self._processor(context)
        results: list[Result] = []
        for record in records:
            self._one(processor, context, record, results)
        self._plan(context)
        return self._finish(processor, results)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        context = self._context([])
        context.now_ms = self._now(timerValues)
        processor = self._processor(context)
        times = self._times(context)
        for number, schedule in enumerate(context.schedules):
            if times[number] <= context.now_ms:
                self._call(context, number)
                times[number] = schedule.after(context.now_ms)
                self._handle.registerTimer(times[number])
        self._next.update((times,))
        return self._finish(processor, context.forwarded)

    def _context(self, keys: list[str]) -> Context:
        for one in self._settings.stores:
            ahead = not isinstance(one, KeyValues) or self._keyed_alike(one)
            self._entries[one.name].open(keys if ahead else [])
        context: Context

        def current() -> str:
            if context.record is None:
                raise ValueError(
                    "a store of one key's values has no key in a schedule: use KeyValues"
                )
            return context.record.key

        stores = {
            one.name: store_of(one, self._entries[one.name], current)
            for one in self._settings.stores
        }
        context = Context(self._codecs, stores, self._settings.time)
        return context

    def _keyed_alike(self, store: KeyValues) -> bool:
        return store.key == self._codecs.key.kind

    def _processor(self, context: Context) -> Processor:
        processor = self._factory()
        processor.init(context)
        return processor

    def _now(self, timer: TimerValues) -> int:
        if self._settings.time == WALL_CLOCK:
            return timer.getCurrentProcessingTimeInMs()
        return timer.getCurrentWatermarkInMs()

    def _one(
        self, processor: Processor, context: Context, record: Record, results: list[Result]
    ) -> None:
        """Process one record, with all of its effects or none."""
        context.record, context.forwarded = record, []

        def work() -> bool:
            processor.process(ProcessorRecord(record, self._codecs))
            return True

        if self._guard.call(record, results, False, work):
            results += context.forwarded
            for entries in self._entries.values():
                entries.keep()
        else:
            for entries in self._entries.values():
                entries.undo()

    def _call(self, context: Context, number: int) -> None:
        try:
            context.schedules[number].callback(context.now)
        except Exception as error:
            raise FunctionFailed(
                f"{MARK}{self._settings.node}: {type(error).__name__}: {error}"
                f" (schedule {number}, at {context.now})"
            ) from error
        for entries in self._entries.values():
            entries.keep()

    def _plan(self, context: Context) -> None:
        """Set the first timers, when a bucket gets its first records."""
        if context.schedules and self._next.get() is None:
            times = [schedule.after(context.now_ms) for schedule in context.schedules]
            for time in set(times):
                self._handle.registerTimer(time)
            self._next.update((times,))

    def _times(self, context: Context) -> list[int]:
        """Return the times of all schedules; schedules that the processor has added begin now."""
        known = self._next.get()
        times = [] if known is None else list(known[0])
        missing = context.schedules[len(times) :]
        return [*times, *(one.after(context.now_ms) for one in missing)][: len(context.schedules)]

    def _finish(self, processor: Processor, results: list[Result]) -> Iterator[Row]:
        for entries in self._entries.values():
            entries.write()
        processor.close()
        return (_Text(result.text()) for result in results)
