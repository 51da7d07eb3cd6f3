"""Random messages of any declared class, for the tests of this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ottla.protocol.schema import Field, Message, Struct
from ottla.protocol.source import element_kind

RECORD_PACKAGES = (
    "metadata_records",
    "coordinator_records",
    "control_records",
    "remote_log_records",
    "stored_files",
    "embedded",
)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
ALPHABET = "abcdefghijklmnopqrstuvwxyz.-_0123456789äß€漢🙂"

# Given a field, a random value for it, or `Ellipsis` for "no opinion".
Special = Callable[[Field, Random], Any]


def message_classes(*packages: str) -> Iterator[type[Message]]:
    """Every message declared in these packages."""
    for package in packages:
        module = importlib.import_module(f"ottla.protocol.{package}")
        for info in sorted(pkgutil.iter_modules(module.__path__), key=lambda info: info.name):
            found = importlib.import_module(f"{module.__name__}.{info.name}")
            for value in vars(found).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    yield value


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def random_struct(
    cls: type[Struct], version: int, random: Random, special: Special | None = None
) -> Any:
    """An instance with random values in the fields of this version, defaults in all others."""
    values = {}
    for field in cls.FIELDS:
        if field.exists_in(version) and not (field.tag is not None and random.random() < 0.3):
            values[field.name] = random_value(field, version, random, special)
    return cls(**values)


def random_value(field: Field, version: int, random: Random, special: Special | None) -> Any:
    if special is not None and (value := special(field, random)) is not ...:
        return value
    if field.nullable_in(version) and random.random() < 0.2:
        return None
    if field.kind == "struct":
        assert field.struct_class is not None
        return random_struct(field.struct_class, version, random, special)
    if field.kind != "array":
        return random_plain(field.kind, random)
    count = random.choice((0, 1, 1, 2, 3))
    if field.struct_class is not None:
        return [random_struct(field.struct_class, version, random, special) for _ in range(count)]
    if random.random() < 0.05:
        count = 130
    return [random_plain(element_kind(field), random) for _ in range(count)]


def random_plain(kind: str, random: Random) -> Any:
    if kind == "bool":
        return random.random() < 0.5
    if kind == "uuid":
        return random.choice((bytes(16), random.randbytes(16)))
    if kind == "float64":
        return random.uniform(-1e9, 1e9)
    if kind == "string":
        return "".join(random.choices(ALPHABET, k=random.choice((0, 1, 7, 20, 140))))
    if kind in ("bytes", "records"):
        return random.randbytes(random.choice((0, 1, 30, 127, 128, 300, 20_000)))
    return random_integer(kind, random)


def random_integer(kind: str, random: Random) -> int:
    bits = INTEGER_BITS[kind]
    low = 0 if kind.startswith("u") else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    return random.choice((0, max(low, -1), 1, low, high, random.randint(low, high)))


def joined(chunks: list[Any]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks)
