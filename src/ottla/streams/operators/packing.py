"""Values as text, to pass through Python and to keep in its state.

Spark writes and reads the text by itself (JSON of `{"v": value}`), so an operator that only keeps
and pairs values never parses them. A struct passed to Python field by field costs some 30
microseconds, as text 3. JSON has no form for maps whose keys are not strings: they are refused with
a hint.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
    "mode": "FAILFAST",
}
NOTHING = ""
"""Stands for null: no JSON text is empty."""

_PLAIN = (
    *(T.StringType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    *(T.FloatType, T.DoubleType, T.DecimalType, T.BinaryType),
    *(T.DateType, T.TimestampType, T.TimestampNTZType, T.NullType),
)

Convert = Callable[[Any], Any]


def packed(column: Column) -> Column:
    """Return the text of a value; empty for null."""
    text = F.to_json(F.struct(column.alias("v")), OPTIONS)
    return F.when(column.isNull(), F.lit(NOTHING)).otherwise(text)


def unpacked(text: Column, kind: T.DataType) -> Column:
    schema = T.StructType().add("v", kind)
    return F.from_json(F.when(text != NOTHING, text), schema, OPTIONS).getField("v")


def check_packable(kind: T.DataType, what: str) -> None:
    match kind:
        case T.StructType():
            for field in kind:
                check_packable(field.dataType, f"{what}.{field.name}")
        case T.ArrayType():
            check_packable(kind.elementType, f"an element of {what}")
        case T.MapType():
            if not isinstance(kind.keyType, T.StringType):
                raise ValueError(
                    f"{what} is a map with keys of type {kind.keyType.simpleString()}: only strings"
                    " can be keys here. map_entries() makes an array of it."
                )
            check_packable(kind.valueType, f"a value of {what}")
        case _ if not isinstance(kind, _PLAIN):
            raise ValueError(
                f"{what} is of type {kind.simpleString()}, which operations with state cannot keep"
            )


class Codec:
    """Converts between text and Python's values, for functions written in Python."""

    def __init__(self, kind: T.DataType, what: str) -> None:
        check_packable(kind, what)
        self.kind = kind
        self._what = what
        self._exact = "decimal" in kind.simpleString()
        self._read = _reader(kind)
        self._write = _writer(kind)

    def loads(self, text: str) -> Any:
        value = json.loads(text, parse_float=Decimal)["v"] if self._exact else json.loads(text)["v"]
        return value if self._read is None else self._read(value)

    def dumps(self, value: Any) -> str:
        """Return the text of a value; raise a TypeError that names a field of a wrong type."""
        if value is None:
            return NOTHING
        shown = {"v": self._write(value, self._what)}
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def _reader(kind: T.DataType) -> Convert | None:
    """Return a converter; None if JSON gives the right value by itself."""
    match kind:
        case T.StructType():
            parts = {field.name: _reader(field.dataType) for field in kind}
            return _struct_reader({name: read for name, read in parts.items() if read})
        case T.ArrayType():
            return _list_reader(_reader(kind.elementType))
        case T.MapType():
            return _map_reader(_reader(kind.valueType))
        case T.DecimalType():
            return _unless_null(lambda given: Decimal(str(given)))
        case T.DoubleType() | T.FloatType():
            return _unless_null(float)
        case T.BinaryType():
            return _unless_null(base64.b64decode)
        case T.DateType():
            return _unless_null(date.fromisoformat)
        case T.TimestampType() | T.TimestampNTZType():
            return _unless_null(datetime.fromisoformat)
    return None


def _unless_null(convert: Convert) -> Convert:
    return lambda given: None if given is None else convert(given)


def _struct_reader(parts: dict[str, Convert]) -> Convert | None:
    if not parts:
        return None

    def read(given: Any) -> Any:
        if given is not None:
            for name, convert in parts.items():
                given[name] = convert(given[name])
        return given

    return read


def _list_reader(element: Convert | None) -> Convert | None:
    return element and _unless_null(lambda given: [element(part) for part in given])


def _map_reader(element: Convert | None) -> Convert | None:
    return element and _unless_null(
        lambda given: {name: element(part) for name, part in given.items()}
    )


_Write = Callable[[Any, str], Any]


def _writer(kind: T.DataType) -> _Write:
    match kind:
        case T.StructType():
            return _struct_writer({field.name: _writer(field.dataType) for field in kind})
        case T.ArrayType():
            element = _writer(kind.elementType)
            return _checked(
                list | tuple, kind, lambda given, what: [element(part, what) for part in given]
            )
        case T.MapType():
            inner = _writer(kind.valueType)
            return _checked(
                dict,
                kind,
                lambda given, what: {k: inner(v, f"{what}[{k!r}]") for k, v in given.items()},
            )
    return _plain_writer(kind)


def _plain_writer(kind: T.DataType) -> _Write:
    match kind:
        case T.StringType():
            return _checked(str, kind)
        case T.BooleanType():
            return _checked(bool, kind)
        case T.DoubleType() | T.FloatType():
            return _checked(int | float | Decimal, kind, lambda given, _: float(given))
        case T.DecimalType():
            return _checked(int | Decimal, kind, lambda given, _: str(given))
        case T.BinaryType():
            return _checked(bytes, kind, lambda given, _: base64.b64encode(given).decode())
        case T.TimestampType():
            return _checked(datetime, kind, lambda given, _: _utc(given))
        case T.TimestampNTZType():
            return _checked(
                datetime, kind, lambda given, _: given.isoformat(timespec="microseconds")
            )
        case T.DateType():
            return _checked(date, kind, lambda given, _: given.isoformat())
        case T.NullType():
            return _checked(type(None), kind)
    return _checked(int, kind)


def _checked(allowed: Any, kind: T.DataType, convert: _Write = lambda given, _: given) -> _Write:
    is_bool = isinstance(kind, T.BooleanType)

    def write(given: Any, what: str) -> Any:
        if given is None:
            return None
        if not isinstance(given, allowed) or (isinstance(given, bool) and not is_bool):
            raise TypeError(f"{what} is {given!r}, which is no {kind.simpleString()}")
        return convert(given, what)

    return write


def _struct_writer(parts: dict[str, _Write]) -> _Write:
    def write(given: Any, what: str) -> Any:
        if given is None:
            return None
        if isinstance(given, T.Row):
            given = given.asDict()
        if not isinstance(given, dict):
            raise TypeError(f"{what} is {given!r}: give a dict with {', '.join(parts)}")
        if not given.keys() <= parts.keys():
            unknown = ", ".join(sorted(map(str, given.keys() - parts.keys())))
            raise TypeError(f"{what} has no field {unknown}; it has {', '.join(parts)}")
        return {name: part(given.get(name), f"{what}.{name}") for name, part in parts.items()}

    return write


def _utc(moment: datetime) -> str:
    """Format in UTC; without a zone it is UTC already."""
    there = moment.replace(tzinfo=None) if moment.tzinfo is None else moment.astimezone(UTC)
    return there.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
