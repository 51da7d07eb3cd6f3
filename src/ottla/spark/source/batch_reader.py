"""A topic as a table: all records between two positions, resolved when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.protocol.uuids import ZERO_UUID
from ottla.spark.source.limits import AtOffsets
from ottla.spark.source.offset_finder import OffsetFinder
from ottla.spark.source.offsets import Offsets
from ottla.spark.source.options import batch_options
from ottla.spark.source.partitions import RangePartition, check_schema
from ottla.spark.source.planning import Range, split
from ottla.spark.source.range_reader import read_range


class BatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = batch_options(options)
        check_schema(schema, headers=self._options.headers)

    def partitions(self) -> list[InputPartition]:
        finder = OffsetFinder(self._options)
        try:
            finder.check_given(self._options.starting, starting=True)
            finder.check_given(self._options.ending, starting=False)
            start = finder.resolved(finder.places(self._options.starting, starting=True))
            until = finder.resolved(finder.places(self._options.ending, starting=False))
            if isinstance(self._options.ending, AtOffsets):
                _check_there(until, finder.latest())
        finally:
            finder.close()
        ids = finder.topic_ids
        tasks = split(
            _ranges(start, until), self._options.min_partitions, self._options.max_records
        )
        return [RangePartition.of(task, ids.get(task.partition.topic, ZERO_UUID)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark passes a partition of its own if there are none.
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, partition.range, partition.topic_id)


def _check_there(until: Offsets, ends: Offsets) -> None:
    for one in sorted(until.keys() & ends.keys()):
        if until[one] > ends[one]:
            raise ValueError(
                f"endingOffsets of {one} is {until[one]}, but it ends at offset {ends[one]}; "
                "-1 stands for the latest"
            )


def _ranges(start: Offsets, until: Offsets) -> list[Range]:
    """Return the ranges; partitions that were added or removed in between are left out."""
    found = []
    for one in sorted(start.keys() & until.keys()):
        if start[one] > until[one]:
            raise ValueError(
                f"The resolved start offset {start[one]} is greater than the resolved end offset "
                f"{until[one]} for topic {one.topic} partition {one.partition}. Check whether the "
                "start is set beyond the end or beyond the last record there, or whether the topic "
                "was deleted and made anew."
            )
        found.append(Range(one, start[one], until[one]))
    return found
