"""A stream while a query is built: a DataFrame with known columns, and the serdes of key and value.

Columns: `key`, `value`, `timestamp`, `headers`, and hidden ones with the origin of a record:
`__topic`, `__partition`, `__offset`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.lowering.columns import ColumnRecord
from ottla.streams.serdes import Serde, serde_for

HEADERS = "array<struct<key:string,value:binary>>"
PLACE = {"__topic": "string", "__partition": "int", "__offset": "bigint"}
COLUMNS = ("key", "value", "timestamp", "headers", *PLACE)


@dataclass(frozen=True)
class Frame:
    """Serdes that are None follow from the types."""

    data: DataFrame
    key: Serde | None
    value: Serde | None

    @property
    def record(self) -> ColumnRecord:
        return ColumnRecord(self.data.schema)

    def having(self, data: DataFrame) -> Frame:
        """Return other data with the same serdes."""
        return replace(self, data=data)

    def with_value(self, value: Column, serde: Serde | None) -> Frame:
        return Frame(self.data.withColumn("value", _of_type(value, serde)), self.key, serde)

    def with_key(self, key: Column, serde: Serde | None) -> Frame:
        return Frame(self.data.withColumn("key", _of_type(key, serde)), serde, self.value)

    def with_both(
        self, both: tuple[Column, Column], key: Serde | None, value: Serde | None
    ) -> Frame:
        columns = {"key": _of_type(both[0], key), "value": _of_type(both[1], value)}
        return Frame(self.data.withColumns(columns), key, value)

    def serdes(self, node: str) -> tuple[Serde, Serde]:
        schema = self.data.schema
        key = self.key or serde_for(schema["key"].dataType, f"the key of {node}")
        value = self.value or serde_for(schema["value"].dataType, f"the value of {node}")
        return key, value


def _of_type(column: Column, serde: Serde | None) -> Column:
    return column if serde is None else column.cast(serde.spark_type())


def complete(data: DataFrame) -> DataFrame:
    """Add missing columns: operations with state may leave some out."""
    missing: dict[str, str] = {
        name: kind
        for name, kind in {"headers": HEADERS, **PLACE}.items()
        if name not in data.columns
    }
    empty = {name: F.lit(None).cast(kind) for name, kind in missing.items()}
    return data.withColumns(empty)
