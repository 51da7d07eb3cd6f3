"""Finds the record and the step that made a batch fail, by running halves of the batch again.

Spark reports the error but not the record. A declared pipeline can be run over any range of offsets
as a batch whose result is dropped. So a failing range is halved until one record is left, and then
the steps are tried one by one on it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.pipelines.declared.run import DeclaredPipeline
from ottla.pipelines.errors import PipelineError, StepFailed
from ottla.pipelines.explaining import query_error, record_in
from ottla.pipelines.progress import topic_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_MAX_S = 60.0
"""Limit of the search, which takes some twenty runs for a million records."""
_COMMITTED = re.compile(r"^Current Committed Offsets: \{(?:[^{]*?: (\{.*\}))?\}$", re.M)
_AVAILABLE = re.compile(r"^Current Available Offsets: \{(?:[^{]*?: (\{.*\}))?\}$", re.M)

Place = tuple[str, int]
Ranges = dict[Place, tuple[int, int]]


def batch_ranges(text: str) -> Ranges:
    """Return what the failed batch was to read, from Spark's exception text; earliest is -2."""
    ends = _offsets(_AVAILABLE, text)
    starts = _offsets(_COMMITTED, text)
    return {
        place: (starts.get(place, 0), end)
        for place, end in ends.items()
        if end > starts.get(place, 0)
    }


def _offsets(pattern: re.Pattern[str], text: str) -> dict[Place, int]:
    found = pattern.search(text)
    given = topic_offsets(found.group(1)) if found and found.group(1) else {}
    return {
        (topic, int(index)): max(offset, 0)
        for topic, partitions in given.items()
        for index, offset in partitions.items()
    }


def first_of(ranges: Ranges, count: int) -> Ranges:
    """Return the first `count` offsets, partition after partition."""
    found: Ranges = {}
    for place, (start, end) in sorted(ranges.items()):
        taken = min(end - start, count)
        if taken > 0:
            found[place] = (start, start + taken)
        count -= taken
    return found


def size(ranges: Ranges) -> int:
    return sum(end - start for start, end in ranges.values())


def without_first(ranges: Ranges, count: int) -> Ranges:
    """Return what is left after the first `count` offsets."""
    found: Ranges = {}
    for place, (start, end) in sorted(ranges.items()):
        skipped = min(end - start, count)
        if start + skipped < end:
            found[place] = (start + skipped, end)
        count -= skipped
    return found


def narrowed(
    ranges: Ranges, fails: Callable[[Ranges], bool], is_late: Callable[[], bool]
) -> Ranges:
    """Return the first offset that fails, or the range it is in, if time runs out."""
    fewest, most = 0, size(ranges)  # no records do not fail, all records do
    while most - fewest > 1 and not is_late():
        middle = (fewest + most) // 2
        if fails(first_of(ranges, middle)):
            most = middle
        else:
            fewest = middle
    return without_first(first_of(ranges, most), fewest)


def as_options(ranges: Ranges) -> dict[str, str]:
    """Return the ranges as options of a batch read."""
    topics: dict[str, dict[str, tuple[int, int]]] = {}
    for (topic, index), limits in ranges.items():
        topics.setdefault(topic, {})[str(index)] = limits
    return {
        "assign": json.dumps(
            {topic: [int(one) for one in found] for topic, found in topics.items()}
        ),
        "startingOffsets": json.dumps(_side(topics, 0)),
        "endingOffsets": json.dumps(_side(topics, 1)),
        "failOnDataLoss": "false",  # records that retention has removed since cannot have failed
    }


def _side(
    topics: Mapping[str, Mapping[str, tuple[int, int]]], side: int
) -> dict[str, dict[str, int]]:
    return {
        topic: {index: limits[side] for index, limits in found.items()}
        for topic, found in topics.items()
    }


def in_words(ranges: Ranges) -> str:
    """Return `orders-0@17`, or `orders-0@17..42` for more than one."""
    return ", ".join(
        f"{topic}-{index}@{start}" + (f"..{end - 1}" if end - start > 1 else "")
        for (topic, index), (start, end) in sorted(ranges.items())
    )


class Locator:
    def __init__(self, spark: SparkSession, pipeline: DeclaredPipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._deadline = 0.0

    def explain(self, text: str) -> PipelineError | None:
        """Return the error with step and record, or None if they cannot be found."""
        gist = query_error(text)
        if record := record_in(gist):
            return StepFailed("source", gist, record)
        ranges = batch_ranges(text)
        if not ranges or len(self._pipeline.declaration.topics) != 1:
            return None
        self._deadline = time.monotonic() + TIME_MAX_S
        if not self._fails(ranges):
            return None
        found = narrowed(ranges, self._fails, lambda: time.monotonic() > self._deadline)
        return StepFailed(self._step(found), gist, in_words(found))

    def _fails(self, ranges: Ranges) -> bool:
        return self._error(ranges, len(self._pipeline.declaration.steps)) is not None

    def _step(self, ranges: Ranges) -> str:
        steps = self._pipeline.declaration.steps
        for count in range(len(steps)):
            if self._error(ranges, count) is not None:
                return "source" if count == 0 else steps[count - 1].label
        return steps[-1].label if steps else "source"

    def _error(self, ranges: Ranges, steps: int) -> Exception | None:
        try:
            frame = self._frame(ranges, steps)
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            return error
        return None

    def _frame(self, ranges: Ranges, steps: int) -> DataFrame:
        frame, _ = self._pipeline.opened(self._spark, as_options(ranges))
        for step in self._pipeline.declaration.steps[:steps]:
            frame = self._pipeline.applied(self._spark, frame, step)
        return frame
