"""Calls Python functions for each record, in Spark's Python workers, on Arrow batches.

If the function raises, or its result does not have the right type, two columns (`__error_kind`,
`__error`) mark the record; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ottla.streams.lowering.dead import DeadLetters, Failure
from ottla.streams.lowering.frame import Frame
from ottla.streams.lowering.values import PythonRecord
from ottla.streams.serdes import Serde

KIND, MESSAGE = "__error_kind", "__error"

Expand = Callable[[PythonRecord], list[tuple[Any, Any]]]
"""From a record to the keys and values that it becomes."""


def call(
    frame: Frame, function: Expand, node: str, dead: DeadLetters, key: Serde, value: Serde
) -> Frame:
    """Replace each record by the results of `function`, in its place."""
    schema = _result_schema(frame, key.spark_type(), value.spark_type())
    zone = frame.data.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    worker = _Worker(function, frame.data.columns, schema, zone)
    called = frame.data.mapInArrow(worker, schema)
    in_bytes = [
        serde.encode(F.col(f"__old.{name}"))
        for name, serde in zip(("key", "value"), frame.serdes(node), strict=True)
    ]
    good = dead.part(called, Failure(F.col(KIND), F.col(MESSAGE)), node, *in_bytes)
    return Frame(good.drop(KIND, MESSAGE, "__old"), key, value)


def _result_schema(frame: Frame, key: DataType, value: DataType) -> StructType:
    given = frame.data.schema
    new = {"key": key, "value": value}
    fields = [StructField(one.name, new.get(one.name, one.dataType)) for one in given]
    old = StructType([StructField(name, given[name].dataType) for name in new])
    return StructType(
        [
            *fields,
            StructField("__old", old),
            StructField(KIND, StringType()),
            StructField(MESSAGE, StringType()),
        ]
    )


class _Made(NamedTuple):
    """The results of one record; after an error, a single empty result."""

    results: list[tuple[Any, Any]]
    error: tuple[str, str] | None


class _Worker:
    """Runs in the Python workers."""

    def __init__(self, function: Expand, columns: list[str], schema: StructType, zone: str) -> None:
        self._function = function
        self._kept = [name for name in columns if name not in ("key", "value")]
        self._types = {field.name: to_arrow_type(field.dataType, timezone=zone) for field in schema}
        self._names = schema.names

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self._convert(batch)

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = [self._called(row) for row in batch.to_pylist()]
        try:
            return self._batch(batch, made)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return self._batch(batch, [self._checked(one) for one in made])

    def _called(self, row: dict[str, Any]) -> _Made:
        try:
            return _Made(self._function(PythonRecord(row)), None)
        except Exception as error:
            return _failed(error)

    def _checked(self, made: _Made) -> _Made:
        """Return the results, or an error if they do not fit the schema."""
        try:
            for key, value in made.results:
                pa.array([key], self._types["key"])
                pa.array([value], self._types["value"])
        except Exception as error:
            return _failed(error)
        return made

    def _batch(self, batch: pa.RecordBatch, made: list[_Made]) -> pa.RecordBatch:
        rows = [number for number, one in enumerate(made) for _ in one.results]
        errors = [one.error or (None, None) for one in made for _ in one.results]
        results = [pair for one in made for pair in one.results]
        taken = batch.take(pa.array(rows, pa.int64()))
        columns = {
            "key": pa.array([key for key, _ in results], self._types["key"]),
            "value": pa.array([value for _, value in results], self._types["value"]),
            **{name: taken.column(name).cast(self._types[name]) for name in self._kept},
            "__old": pa.StructArray.from_arrays(
                [taken.column("key"), taken.column("value")], ["key", "value"]
            ).cast(self._types["__old"]),
            KIND: pa.array([kind for kind, _ in errors], pa.string()),
            MESSAGE: pa.array([message for _, message in errors], pa.string()),
        }
        fields = [pa.field(name, columns[name].type) for name in self._names]
        return pa.record_batch([columns[name] for name in self._names], schema=pa.schema(fields))


def _failed(error: Exception) -> _Made:
    return _Made([(None, None)], (type(error).__name__, str(error)))
