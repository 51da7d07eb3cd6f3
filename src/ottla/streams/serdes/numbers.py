"""Numbers as Java's serializers write them: big-endian, of a fixed length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.streams.serdes.serde import Parsed, Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class Long(Serde):
    """64 bits, signed."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import LongType

        return LongType()

    def parse(self, data: Column) -> Parsed:
        return _parsed(data, "long", 8, self._read(data))

    def _read(self, data: Column) -> Column:
        return _signed(data).cast("long")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.lpad(F.hex(column.cast("long")), 16, "0"))

    def __str__(self) -> str:
        return "long"


@dataclass(frozen=True)
class Int(Serde):
    """32 bits, signed."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import IntegerType

        return IntegerType()

    def parse(self, data: Column) -> Parsed:
        return _parsed(data, "int", 4, self._read(data))

    def _read(self, data: Column) -> Column:
        from pyspark.sql import functions as F

        unsigned = _signed(data).cast("long")  # 32 of 64 bits: no sign yet
        negative = unsigned >= 1 << 31
        return F.when(negative, unsigned - (1 << 32)).otherwise(unsigned).cast("int")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.right(F.lpad(F.hex(column.cast("int").cast("long")), 16, "0"), F.lit(8)))

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class Double(Serde):
    """64 bits of IEEE 754."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import DoubleType

        return DoubleType()

    def parse(self, data: Column) -> Parsed:
        return _parsed(data, "double", 8, self._read(data))

    def _read(self, data: Column) -> Column:
        return _of_java("longBitsToDouble", _signed(data).cast("long")).cast("double")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        bits = _of_java("doubleToLongBits", column.cast("double")).cast("long")
        return F.when(column.isNotNull(), Long().encode(bits))

    def __str__(self) -> str:
        return "double"


def _parsed(data: Column, name: str, length: int, value: Column) -> Parsed:
    """Return `value` where the data has the length of such a number."""
    from pyspark.sql import functions as F

    fits = F.length(data) == length
    found = F.concat(F.lit(f"{name} has {length} bytes, not "), F.length(data))
    return Parsed(F.when(fits, value), F.when(~fits, found))


def _signed(data: Column) -> Column:
    """Return up to 8 bytes as the text of a number; a negative base means two's complement."""
    from pyspark.sql import functions as F

    return F.conv(F.hex(data), 16, -10)


def _of_java(method: str, number: Column) -> Column:
    """Call Java's method: Spark has no expression for the bits of a double."""
    from pyspark.sql import functions as F

    zero = F.lit(0).cast("long" if method == "longBitsToDouble" else "double")
    return F.reflect(F.lit("java.lang.Double"), F.lit(method), F.coalesce(number, zero))
