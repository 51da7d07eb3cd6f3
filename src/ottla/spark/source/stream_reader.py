"""A topic as a stream: Spark asks how far a batch may go, then for its tasks.

Every batch follows only from two sets of offsets, which Spark keeps in its checkpoint, so that a
batch planned again after a crash is the same. So the first offsets stay as given, -2 (earliest) or
-1 (latest), because they could resolve to other numbers later:

    start -1 -> end 100     nothing to read: 100 was the latest, and is now stored
    start -2 -> end 100     from the earliest record
    no start -> end 100     a partition found meanwhile: the same
    start 50 -> end 20      the topic was deleted and created again: from its earliest record
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.protocol.uuids import ZERO_UUID
from ottla.spark.source import data_loss
from ottla.spark.source.offset_finder import OffsetFinder
from ottla.spark.source.offsets import LATEST, Offsets, from_json, ids_from_json, to_json
from ottla.spark.source.options import stream_options
from ottla.spark.source.partitions import RangePartition, check_schema
from ottla.spark.source.planning import is_enough, needs_earliest, ranges_between, split, spread
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.topic_history import TopicHistory

Json = dict[str, dict[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = stream_options(options)
        check_schema(schema, headers=self._options.headers)
        # The following is used in the one process that plans for the driver.
        self._finder = OffsetFinder(self._options)
        self._first: Offsets | None = None
        self._is_checked = False
        """True if the partitions of the first offsets have been checked."""
        self._goal: Offsets | None = None
        """With the trigger available-now: where the query ends."""
        self._latest: Offsets | None = None
        self._last_batch_at = -float("inf")

    # Offsets

    def initialOffset(self) -> Json:
        """Return the first offsets. Spark asks more than once, and must get the same answer."""
        if self._first is None:
            self._first = self._starting()
        return to_json(self._first)

    def _starting(self) -> Offsets:
        places = self._finder.places(self._options.starting, starting=True)
        numbers = {one: offset for one, offset in places.items() if offset >= 0}
        if numbers:
            ends = self._finder.latest()
            for one, offset in numbers.items():
                if one in ends and offset > ends[one]:
                    data_loss.report(
                        f"{one} is to be read from offset {offset}, but ends at {ends[one]}.",
                        fails=self._options.fail_on_data_loss,
                    )
                    places[one] = LATEST
        return places

    def prepareForTriggerAvailableNow(self) -> None:
        self._goal = self._finder.latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        begin = from_json(start)
        self._check_first(begin)
        latest = self._latest = self._finder.latest(begin) if self._goal is None else self._goal
        ids = self._finder.topic_ids
        history = TopicHistory(ids_from_json(start)).seen(ids)
        end = history.ends(begin, latest)
        if not isinstance(limit, ReadAllAvailable):
            if self._waits(begin, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = self._limited(limit.max_rows, begin, end, history)
        return to_json(end, ids)

    def _check_first(self, begin: Offsets) -> None:
        """Check the first offsets, only if nothing was planned before. A query that died in its
        first batch plans it again from the same offsets, even if the partitions have changed
        since."""
        if not self._is_checked and begin == self._first:
            self._finder.check_given(self._options.starting, starting=True)
        self._is_checked = True

    def reportLatestOffset(self) -> Json | None:
        return to_json(self._latest) if self._latest else None

    def _waits(self, begin: Offsets, end: Offsets) -> bool:
        """True if there is too little for a batch and time to wait for more; a query with the
        trigger available-now does not wait."""
        least = self._options.min_offsets
        if least is None or self._goal is not None or end == begin:
            return False
        now = time.monotonic()
        waited_ms = (now - self._last_batch_at) * 1000
        if waited_ms < self._options.max_delay_ms and not is_enough(least, begin, end):
            return True
        self._last_batch_at = now
        return False

    def _limited(self, most: int, begin: Offsets, end: Offsets, history: TopicHistory) -> Offsets:
        wanted = needs_earliest(begin, end) - history.truncated(begin, end)
        earliest = self._finder.earliest(wanted)
        starts = begin | {one: end[one] for one in end if begin.get(one) == LATEST} | earliest
        return spread(most, starts, end)

    # Tasks

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        begin, until = from_json(start), from_json(end)
        ids = ids_from_json(end)
        history = TopicHistory(ids_from_json(start)).seen(ids)
        truncated = history.truncated(begin, until)
        earliest = self._finder.earliest(needs_earliest(begin, until) - truncated)
        reasons = [f"Topic {name} was deleted and made anew." for name in sorted(history.anew)]
        for reason in reasons + data_loss.between(begin, until, earliest):
            data_loss.report(reason, fails=self._options.fail_on_data_loss)
        tasks = split(
            ranges_between(begin, until, earliest),
            self._options.min_partitions,
            self._options.max_records,
        )
        return [RangePartition.of(task, ids.get(task.partition.topic, ZERO_UUID)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        yield from read_range(self._options, partition.range, partition.topic_id)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint has what was read."""

    def stop(self) -> None:
        self._finder.close()


class RefusedReader(DataSourceStreamReader):
    """Reports wrong options when Spark first calls it. If reported earlier, the last line of the
    error would be PySpark's own, about stopping a reader that it does not have."""

    def __init__(self, error: ValueError) -> None:
        self._error = error

    def initialOffset(self) -> Json:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error
