"""The serde of a column for which the program gave none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.streams.errors import BadTopology
from ottla.streams.serdes.json import Json
from ottla.streams.serdes.numbers import Double, Int, Long
from ottla.streams.serdes.plain import Bytes, String
from ottla.streams.serdes.serde import Serde

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_FORMS: dict[str, Serde] = {
    "string": String(),
    "binary": Bytes(),
    "bigint": Long(),
    "int": Int(),
    "double": Double(),
    "void": Bytes(),
}


def serde_for(found: DataType, what: str) -> Serde:
    """Return Kafka Streams' serde for plain types; JSON for rows, lists and maps."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(found, StructType | ArrayType | MapType):
        return Json(found)
    serde = _FORMS.get(found.simpleString())
    if serde is None:
        raise BadTopology(
            f"{what} is of type {found.simpleString()}, which has no usual form in a topic: say"
            " which serde to use, or make it a string, a number (int, bigint, double) or a dict"
        )
    return serde
