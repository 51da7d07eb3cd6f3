"""Keys of windows, as Kafka Streams writes them: the key's bytes, then the window's time.

Time windows end with their start in milliseconds, sessions with end and start. The size of time
windows is not in the bytes: a reader must know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.durations import in_words
from ottla.streams.durations import Duration, milliseconds
from ottla.streams.serdes.numbers import Long
from ottla.streams.serdes.serde import Parsed, Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class Windowed(Serde):
    """`Windowed(String(), size="1 minute")`; without a size: sessions.

    A column of it has the fields `key` and `window`; `window` has `start` and `end`.
    """

    inner: Serde
    size: Duration | None = None

    @property
    def size_ms(self) -> int | None:
        return None if self.size is None else milliseconds(self.size, "the size of windows")

    def spark_type(self) -> DataType:
        from pyspark.sql.types import StructType, TimestampType

        window = StructType().add("start", TimestampType()).add("end", TimestampType())
        return StructType().add("key", self.inner.spark_type()).add("window", window)

    def parse(self, data: Column) -> Parsed:
        from pyspark.sql import functions as F

        times = 8 if self.size is not None else 16
        long_enough = F.length(data) >= times
        inner = self.inner.parse(F.substring(data, F.lit(1), F.length(data) - times))
        value = F.struct(inner.value.alias("key"), self._window(data).alias("window"))
        short = F.when(~long_enough, F.lit(f"the key of a window has at least {times} bytes"))
        return Parsed(F.when(long_enough, value), F.coalesce(short, inner.problem))

    def _window(self, data: Column) -> Column:
        from pyspark.sql import functions as F

        def moment(position: int) -> Column:
            return Long().parse(F.substring(data, F.length(data) + position, F.lit(8))).value

        start = moment(-7)
        end = moment(-15) if self.size_ms is None else start + self.size_ms
        return F.struct(
            F.timestamp_millis(start).alias("start"), F.timestamp_millis(end).alias("end")
        )

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        start = Long().encode(F.unix_millis(column["window"]["start"]))
        end = Long().encode(F.unix_millis(column["window"]["end"]))
        times = [start] if self.size is not None else [end, start]
        return F.concat(self.inner.encode(column["key"]), *times)

    def __str__(self) -> str:
        ms = self.size_ms
        return f"{'session' if ms is None else in_words(ms)} windows of {self.inner}"
