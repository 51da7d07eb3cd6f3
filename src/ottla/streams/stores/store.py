"""Reads state from outside: from the checkpoint, as of the last finished batch.

The running query is not disturbed. A read costs a small Spark job, some tenths of a second: it is
for people and tests, not for serving requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from ottla.streams.errors import StoreMissing
from ottla.streams.stores.entry import Entry, StateForm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Store:
    def __init__(self, spark: SparkSession, name: str, folder: str, form: StateForm) -> None:
        self._spark = spark
        self._name = name
        self._folder = folder
        self._form = form

    def get(self, key: Any) -> Any:
        """Return the value of a key; None if there is none. For windows see `windows`."""
        for entry in self._of_key(key):
            if entry.window is not None:
                raise StoreMissing(f"{self._name} is a store of windows: use windows(key)")
            return entry.value
        return None

    def windows(
        self, key: Any, start: datetime | None = None, end: datetime | None = None
    ) -> list[Entry]:
        """Return the windows of a key that start between the two (both included), oldest first."""
        found = [
            entry
            for entry in self._of_key(key)
            if entry.window is not None
            and (start is None or entry.window.start >= start)
            and (end is None or entry.window.start <= end)
        ]
        return sorted(found, key=lambda entry: entry.window.start if entry.window else 0)

    def all(self) -> list[Entry]:
        """Return all entries, in no particular order."""
        return list(self._entries(self._data()))

    def range(self, first: Any, last: Any) -> list[Entry]:
        """Return the keys between the two (both included), in order."""
        found = [entry for entry in self.all() if first <= entry.key <= last]
        return sorted(found, key=lambda entry: entry.key)

    def count(self) -> int:
        """Return about how many keys there are, or keys of windows."""
        return self._data().count()

    def _of_key(self, key: Any) -> Iterator[Entry]:
        rows = self._form.having_key(self._data(), key)
        return (entry for entry in self._entries(rows) if entry.key == key)

    def _entries(self, rows: DataFrame) -> Iterator[Entry]:
        return (entry for row in rows.collect() for entry in self._form.entries(row))

    def _data(self) -> DataFrame:
        reader = self._spark.read.format("statestore")
        if self._form.variable is not None:
            reader = reader.option("stateVarName", self._form.variable)
        try:
            return reader.load(self._folder)
        except AnalysisException as error:
            raise StoreMissing(
                f"the store {self._name} has nothing to read yet: no batch is done ({error})"
            ) from error

    def __repr__(self) -> str:
        return f"Store({self._name})"
