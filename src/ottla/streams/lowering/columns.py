"""The record that a lambda gets while a query is built: its parts are columns.

`r.value.amount` is a column, so `r.value.amount > 10` is an expression of Spark's. Rows are given
as `Fields`, not as columns: a column's own methods would hide fields such as `name`, and a misspelt
field should be reported at once, by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ottla.streams.errors import BadTopology


class Fields:
    """The fields of a row: `r.value.amount` or `r.value["amount"]`.

    `{**r.value, "tax": ...}` is the row with one more field. Any other name is a method of the
    whole column: `r.value.isNull()`.
    """

    def __init__(self, column: Column, struct: StructType) -> None:
        self.__column = column
        self.__struct = struct

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct.names:
            names = list(self.__struct.names)
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; is {close[0]} meant?" if close else ""
            raise BadTopology(f"there is no field {name!r}; there are: {', '.join(names)}{hint}")
        return namespace(self.__column.getField(name), self.__struct[name].dataType)

    def __getattr__(self, name: str) -> Any:
        if name in self.__struct.names:
            return self[name]
        if not name.startswith("_") and hasattr(Column, name):
            return getattr(self.__column, name)
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def keys(self) -> list[str]:
        return list(self.__struct.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct.names)

    def __repr__(self) -> str:
        return f"Fields({', '.join(self.__struct.names)})"


def namespace(column: Column, found: DataType) -> Any:
    return Fields(column, found) if isinstance(found, StructType) else column


class ColumnRecord:
    """The `r` of `lambda r: ...`."""

    def __init__(self, schema: StructType) -> None:
        self.key = namespace(F.col("key"), schema["key"].dataType)
        self.value = namespace(F.col("value"), schema["value"].dataType)
        self.timestamp = F.col("timestamp")
        self.headers = F.col("headers")
        if "__topic" in schema.names:
            self.topic = F.col("__topic")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BadTopology(f"a record has no {name!r}; it has: {', '.join(vars(self))}")


def column(given: Any) -> Column:
    """Convert a lambda's result to a column: dicts become rows, lists arrays, other values
    constants.

    Also converts `r.value`, if it is a row, for Spark's functions: `F.to_json(column(r.value))`.
    """
    if isinstance(given, Column):
        return given
    if isinstance(given, Fields):
        return given._Fields__column  # type: ignore[no-any-return]
    if isinstance(given, Mapping):
        return F.struct(*(column(part).alias(str(name)) for name, part in given.items()))
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return F.array(*(column(part) for part in given))
    return F.lit(given)


def pair(given: Any, verb: str) -> tuple[Column, Column]:
    if not isinstance(given, tuple) or len(given) != 2:
        raise BadTopology(f"{verb} must give (key, value), not {given!r}")
    return column(given[0]), column(given[1])


def pairs(given: Any) -> Column:
    """Convert a list of (key, value), or a column of arrays of structs of `key` and `value`."""
    if isinstance(given, Iterable) and not isinstance(given, Column | Fields):
        made = [pair(one, "flat_map") for one in given]
        return F.array(*(F.struct(key.alias("key"), value.alias("value")) for key, value in made))
    return column(given)
