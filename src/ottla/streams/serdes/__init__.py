"""Serdes of keys and values."""

from ottla.streams.serdes.inferred import serde_for
from ottla.streams.serdes.json import Json
from ottla.streams.serdes.numbers import Double, Int, Long
from ottla.streams.serdes.plain import Bytes, String
from ottla.streams.serdes.serde import Parsed, Serde
from ottla.streams.serdes.windowed import Windowed

__all__ = [
    "Bytes",
    "Double",
    "Int",
    "Json",
    "Long",
    "Parsed",
    "Serde",
    "String",
    "Windowed",
    "serde_for",
]
