"""The newest change of each key, at most once per time limit: Kafka Streams' `untilTimeLimit`.

A key's first change starts the clock, by stream time. When the limit has passed, the newest change
is emitted, and the next change starts the clock again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.streams.operators.engine import BUCKETS, Columns, Input, run
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.records import Record, Result


def until_time_limit(frame: DataFrame, limit_ms: int, *, buckets: int = BUCKETS) -> DataFrame:
    """Return a changelog with fewer changes. Use update mode."""
    used = frame.filter(F.col("key").isNotNull())
    text = run([Input(used)], Held(limit_ms), grace_ms=0, buckets=buckets)
    columns, schema = Columns(), frame.schema
    return text.select(
        columns.value("key", schema["key"].dataType).alias("key"),
        columns.value("value", schema["value"].dataType).alias("value"),
        *columns.usual(),
    )


class Held(Operator):
    timed = True

    def __init__(self, limit_ms: int) -> None:
        self._limit = limit_ms

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        last = records[-1]
        due = records[0].time + self._limit if state is None else int(state.more)
        if due <= now:
            # The timer may be due in this same batch: it then finds nothing.
            return Step(None, [Result(key, last.value, last.time)])
        asked = due if state is None else None
        return Step(State(last.value, last.time, str(due)), (), asked)

    def look(self, key: str, state: State | None, now: int) -> Step:
        if state is None or int(state.more) > now:
            return Step(state)
        return Step(None, [Result(key, state.value, state.time)])
