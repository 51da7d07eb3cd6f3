"""Every message and version that kio has: our bytes are its bytes, and the fields mean the same."""

from __future__ import annotations

import datetime
import io
import re
import uuid
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, get_args

import pytest
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from protocol_samples import joined, message_classes, random_integer, random_struct, versions_of

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Field, Message, Struct

SAMPLES_PER_VERSION = 15
DAY_MS = 24 * 3600 * 1000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# API: (our versions, kio's), where Kafka 4.3.0 and kio differ.
KNOWN_DIFFERENCES: dict[ApiKey, tuple[tuple[int, int], tuple[int, int]]] = {}


def test_apis_and_versions_are_those_of_kio() -> None:
    ours = {int(key): entry.versions for key, entry in APIS.items()}
    theirs = {}
    for key, name in api_key_map.items():
        versions = [
            version
            for version, entities in schema_name_map[name].items()
            if EntityType.request in entities
        ]
        theirs[key] = (min(versions), max(versions))
    differences = {
        ApiKey(key): (ours.get(key), theirs.get(key))
        for key in ours.keys() | theirs.keys()
        if ours.get(key) != theirs.get(key)
    }
    assert differences == KNOWN_DIFFERENCES


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name.lower())
def test_our_bytes_are_those_of_kio(key: ApiKey, direction: str, random: Random) -> None:
    entry = APIS[key]
    cls = entry.request_class() if direction == "request" else entry.response_class()
    load = load_request_schema if direction == "request" else load_response_schema
    assert (key, entry.versions, entry.flexible_from) == (cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE)
    for version in versions_of(cls):
        check_against_kio(cls, load(key, version), version, random)


KIO_DATA = [
    cls
    for cls in message_classes("control_records", "embedded")
    if re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower() in schema_name_map
]


@pytest.mark.parametrize("cls", KIO_DATA, ids=lambda cls: cls.__name__)
def test_our_bytes_of_other_data_are_those_of_kio(cls: type[Message], random: Random) -> None:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    for version in versions_of(cls):
        theirs = load_entity_schema(name, version, EntityType.data)
        check_against_kio(cls, theirs, version, random)


def check_against_kio(cls: type[Message], theirs: Any, version: int, random: Random) -> None:
    special = special_values(cls, theirs, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    for _ in range(SAMPLES_PER_VERSION):
        message = random_struct(
            cls, version, random, lambda field, random: pick(special.get(id(field)), random)
        )
        data = joined(encoder(cls, version)(message))
        entity, size = read(data, 0)
        assert size == len(data), f"v{version}: kio reads another number of bytes"
        assert_same(message, entity, version)
        buffer = io.BytesIO()
        write(buffer, entity)
        assert buffer.getvalue() == data, f"v{version}: kio writes other bytes for {entity}"
        decoded, end = decoder(cls, version)(data, 0)
        assert decoded == message
        assert end == len(data)


def pairs(cls: type[Struct], theirs: Any, version: int) -> list[tuple[Field, Any]]:
    """Our fields of this version beside kio's, which are in the same order."""
    ours = [field for field in cls.FIELDS if field.exists_in(version)]
    assert [field.name.removesuffix("_ms").rstrip("_") for field in ours] == [
        field.name.removesuffix("_ms").rstrip("_") for field in fields(theirs)
    ]
    return list(zip(ours, fields(theirs), strict=True))


def special_values(cls: type[Struct], theirs: Any, version: int) -> dict[int, str]:
    """Fields for which kio has types of a narrower range, by identity of our declaration."""
    special = {}
    for ours, their in pairs(cls, theirs, version):
        inner = entity_type(their.type)
        if ours.struct_class is not None:
            assert inner is not None, ours.name
            special.update(special_values(ours.struct_class, inner, version))
        elif their.metadata["kafka_type"] in ("error_code", "timedelta_i64", "datetime_i64"):
            special[id(ours)] = their.metadata["kafka_type"]
    return special


def entity_type(annotation: Any) -> Any:
    """The dataclass inside `X`, `X | None`, `tuple[X, ...]` and their mixtures."""
    if is_dataclass(annotation):
        return annotation
    found = (entity_type(inner) for inner in get_args(annotation))
    return next((inner for inner in found if inner is not None), None)


def pick(kind: str | None, random: Random) -> Any:
    if kind == "error_code":
        return int(random.choice(list(ErrorCode)))
    if kind is not None:
        return random.choice((0, 1, random.randint(0, 10_000 * DAY_MS)))
    return ...


def assert_same(ours: Struct, theirs: Any, version: int) -> None:
    for field, their in pairs(type(ours), type(theirs), version):
        expected = getattr(ours, field.name)
        value = getattr(theirs, their.name)
        if field.struct_class is not None and isinstance(expected, list):
            assert len(expected) == len(value)
            for ours_item, their_item in zip(expected, value, strict=True):
                assert_same(ours_item, their_item, version)
        elif isinstance(expected, Struct) and is_dataclass(value):
            assert_same(expected, value, version)
        else:
            assert plain(value, field) == expected, field.name


def plain(value: Any, field: Field) -> Any:
    """kio's rich types as what goes over the wire."""
    if value is None and field.kind == "uuid":
        return bytes(16)
    if value is None and field.kind == "int64":
        return -1
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / datetime.timedelta(milliseconds=1))
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, tuple):
        return [bytes(16) if item is None else plain(item, field) for item in value]
    return value


def test_the_random_values_reach_both_ends_of_their_type(random: Random) -> None:
    assert {random_integer("int16", random) for _ in range(200)} >= {-32768, 32767, 0, -1}
