"""PySpark expressions without Spark: a fake JVM that allows calls such as `F.lower(r.value.name)`.

Every attribute and call returns another fake object; only column names are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.pipelines.checking.sql_names import find_unknown
from ottla.pipelines.checking.sql_syntax import find_mistake
from ottla.pipelines.declared.schemas import Shape
from ottla.streams.errors import BadTopology


class _Anything:
    """An object of a JVM that does not exist."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *arguments: Any) -> Any:
        return _Anything()


class _Functions(_Anything):
    """`org.apache.spark.sql.functions`: functions that take column names check them."""

    def __init__(self, columns: dict[str, Shape]) -> None:
        self._columns = columns

    def col(self, name: str) -> Any:
        self._check_columns(name)
        return _Anything()

    column = col

    def expr(self, text: str) -> Any:
        if mistake := find_mistake(text):
            raise BadTopology(f"in {text!r}: {mistake.problem}")
        self._check_columns(text)
        return _Anything()

    def _check_columns(self, text: str) -> None:
        if not text.startswith("__") and (unknown := find_unknown(text, self._columns, {})):
            raise BadTopology(str(unknown))


class _Jvm(_Anything):
    def __init__(self, columns: dict[str, Shape]) -> None:
        self.functions = _Functions(columns)
        setattr(self, "org.apache.spark.sql.functions", self.functions)


class _Context(_Anything):
    def __init__(self, columns: dict[str, Shape]) -> None:
        self._jvm = _Jvm(columns)


@contextmanager
def no_spark(columns: dict[str, Shape]) -> Iterator[None]:
    """Let expressions be made for a frame with these columns; they are useless afterwards."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, session = SparkContext._active_spark_context, SparkSession._instantiatedSession
    SparkContext._active_spark_context = _Context(columns)  # type: ignore[assignment]
    try:
        yield
    finally:
        # A cast asks for the session, and without one it would create it from the fake context.
        SparkContext._active_spark_context = context
        SparkSession._instantiatedSession = session
