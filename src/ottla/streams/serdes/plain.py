"""Text and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.streams.serdes.serde import Parsed, Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class String(Serde):
    """UTF-8."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import StringType

        return StringType()

    def parse(self, data: Column) -> Parsed:
        from pyspark.sql import functions as F

        text = data.cast("string")
        bad = data.isNotNull() & ~F.is_valid_utf8(text)
        return Parsed(text, F.when(bad, F.lit("not UTF-8")))

    def encode(self, column: Column) -> Column:
        return column.cast("string").cast("binary")

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class Bytes(Serde):
    """Bytes, unchanged."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import BinaryType

        return BinaryType()

    def parse(self, data: Column) -> Parsed:
        from pyspark.sql import functions as F

        return Parsed(data, F.lit(None).cast("string"))

    def encode(self, column: Column) -> Column:
        return column.cast("binary")

    def __str__(self) -> str:
        return "bytes"
