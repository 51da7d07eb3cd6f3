"""Numbers as Java's serializers write them: big-endian, of a fixed length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ottla.streams.serdes.serde import Parsed, Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class _Number(Serde):
    name: ClassVar[str]
    length: ClassVar[int]

    def parse(self, data: Column) -> Parsed:
        from pyspark.sql import functions as F

        fits = F.length(data) == self.length
        found = F.concat(F.lit(f"{self.name} has {self.length} bytes, not "), F.length(data))
        return Parsed(F.when(fits, self._read(data)), F.when(~fits, found))

    def _read(self, data: Column) -> Column:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Long(_Number):
    """64 bits, signed."""

    name: ClassVar[str] = "long"
    length: ClassVar[int] = 8

    def spark_type(self) -> DataType:
        from pyspark.sql.types import LongType

        return LongType()

    def _read(self, data: Column) -> Column:
        return _signed(data).cast("long")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.lpad(F.hex(column.cast("long")), 16, "0"))


@dataclass(frozen=True)
class Int(_Number):
    """32 bits, signed."""

    name: ClassVar[str] = "int"
    length: ClassVar[int] = 4

    def spark_type(self) -> DataType:
        from pyspark.sql.types import IntegerType

        return IntegerType()

    def _read(self, data: Column) -> Column:
        from pyspark.sql import functions as F

        unsigned = _signed(data).cast("long")  # 32 bits of 64: no sign yet
        negative = unsigned >= 1 << 31
        return F.when(negative, unsigned - (1 << 32)).otherwise(unsigned).cast("int")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.right(F.lpad(F.hex(column.cast("int").cast("long")), 16, "0"), F.lit(8)))


@dataclass(frozen=True)
class Double(_Number):
    """64 bits of IEEE 754."""

    name: ClassVar[str] = "double"
    length: ClassVar[int] = 8

    def spark_type(self) -> DataType:
        from pyspark.sql.types import DoubleType

        return DoubleType()

    def _read(self, data: Column) -> Column:
        return _of_java("longBitsToDouble", _signed(data).cast("long")).cast("double")

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        bits = _of_java("doubleToLongBits", column.cast("double")).cast("long")
        return F.when(column.isNotNull(), Long().encode(bits))


def _signed(data: Column) -> Column:
    """Up to 8 bytes as the text of a number; a negative base means two's complement."""
    from pyspark.sql import functions as F

    return F.conv(F.hex(data), 16, -10)


def _of_java(method: str, number: Column) -> Column:
    """Spark has no expression for the bits of a double, but it can call Java's method."""
    from pyspark.sql import functions as F

    zero = F.lit(0).cast("long" if method == "longBitsToDouble" else "double")
    return F.reflect(F.lit("java.lang.Double"), F.lit(method), F.coalesce(number, zero))
