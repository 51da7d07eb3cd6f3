"""JSON of a given schema.

Spark's reader is lenient: it stops at the end of the first value and takes an array for a row. The
text is therefore read as a member of an object: text after the value is then a syntax error, or
hides the member that should follow.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ottla.streams.errors import BadTopology
from ottla.streams.serdes.serde import Parsed, Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_MEMBER = "v"
_END = "end"
_CORRUPT = "corrupt"


class Json(Serde):
    """`Json("account string, amount double")`, `Json("array<int>")`, or a type of Spark's.

    Fields that are not in the schema are ignored, missing ones are null. A field of another type,
    invalid JSON, or truncated JSON is a problem.
    """

    def __init__(self, schema: str | DataType) -> None:
        self._schema = schema

    @cached_property
    def _type(self) -> DataType:
        from pyspark.errors import ParseException
        from pyspark.sql.types import DataType

        if isinstance(self._schema, DataType):
            return self._schema
        try:
            return DataType.fromDDL(self._schema)
        except ParseException as error:
            problem = str(error).partition("SQLSTATE")[0].strip()
            raise BadTopology(
                f"Json({self._schema!r}): Spark takes this for no schema: {problem}"
            ) from None

    def spark_type(self) -> DataType:
        return self._type

    def parse(self, data: Column) -> Parsed:
        from pyspark.sql import functions as F
        from pyspark.sql.types import BooleanType, StringType, StructType

        text = data.cast("string")
        schema = StructType().add(_MEMBER, self._type)
        schema = schema.add(_END, BooleanType()).add(_CORRUPT, StringType())
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        member = F.concat(F.lit(f'{{"{_MEMBER}":'), text, F.lit(f',"{_END}":true}}'))
        read = F.from_json(member, schema, options)
        bad = data.isNotNull() & (read[_END].isNull() | read[_CORRUPT].isNotNull())
        return Parsed(read[_MEMBER], F.when(bad, F.lit(f"not JSON of the schema {self}")))

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        options = {"ignoreNullFields": "false"}
        if isinstance(self._type, StructType):
            return F.to_json(column, options).cast("binary")
        member = F.to_json(F.struct(column.alias(_MEMBER)), options)
        text = F.substring(member, len(_MEMBER) + 5, F.length(member) - len(_MEMBER) - 5)
        return F.when(column.isNotNull(), text.cast("binary"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Json({str(self)!r})"

    def __str__(self) -> str:
        return self._schema if isinstance(self._schema, str) else self._type.simpleString()
