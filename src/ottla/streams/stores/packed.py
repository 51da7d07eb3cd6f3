"""State of operations in Python, which store keys and values as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import StoreMissing
from ottla.streams.stores.entry import Entry, Span
from ottla.streams.windows import Hopping, Session, Tumbling, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class PackedState:
    """`key` and `value` are the types of the results; `key` is without its window."""

    key: DataType
    value: DataType
    window: Window | None
    variable: str | None = "state"

    def having_key(self, data: DataFrame, key: Any) -> DataFrame:
        from pyspark.sql import functions as F

        from ottla.streams.operators.packing import Codec

        if isinstance(self.window, Tumbling | Hopping):
            return data
        return data.filter(F.col("user_map_key.key") == Codec(self.key, "the key").dumps(key))

    def entries(self, row: Row) -> Iterator[Entry]:
        from ottla.streams.operators.packing import Codec

        packed, kept = row["user_map_key"][0], row["user_map_value"]
        values = Codec(self.value, "value")
        if isinstance(self.window, Tumbling | Hopping):
            yield self._of_window(packed, values.loads(kept["value"]))
        elif isinstance(self.window, Session):
            _due, *sessions = json.loads(kept["more"])
            key = Codec(self.key, "key").loads(packed)
            for start, end, _time, value in sessions:
                yield Entry(key, values.loads(value), Span.of_ms(start, end))
        elif self.window is None:
            yield Entry(Codec(self.key, "key").loads(packed), values.loads(kept["value"]))
        else:
            raise StoreMissing("sliding windows keep records, not results: read the topic instead")

    def _of_window(self, packed: str, value: Any) -> Entry:
        from pyspark.sql.types import StructType, TimestampType

        from ottla.streams.operators.packing import Codec

        span = StructType().add("start", TimestampType()).add("end", TimestampType())
        kind = StructType().add("key", self.key).add("window", span)
        found = Codec(kind, "key").loads(packed)
        return Entry(found["key"], value, Span(found["window"]["start"], found["window"]["end"]))
