"""Encodes and decodes coordinator records: Kafka's framing of keys and values.

A key begins with the record's type (int16), a value with its version (int16).
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import Message

_INT16: Final = struct.Struct(">h")
_RECORDS: Final = "ottla.protocol.coordinator_records"

GROUP_RECORDS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("legacy_offset_commit", "LegacyOffsetCommit"),
    1: ("offset_commit", "OffsetCommit"),
    2: ("group_metadata", "GroupMetadata"),
    3: ("consumer_group_metadata", "ConsumerGroupMetadata"),
    4: ("consumer_group_partition_metadata", "ConsumerGroupPartitionMetadata"),
    5: ("consumer_group_member_metadata", "ConsumerGroupMemberMetadata"),
    6: ("consumer_group_target_assignment_metadata", "ConsumerGroupTargetAssignmentMetadata"),
    7: ("consumer_group_target_assignment_member", "ConsumerGroupTargetAssignmentMember"),
    8: ("consumer_group_current_member_assignment", "ConsumerGroupCurrentMemberAssignment"),
    16: ("consumer_group_regular_expression", "ConsumerGroupRegularExpression"),
}
"""The record types in `__consumer_offsets` that Ottla writes and reads: module and class prefix."""

TRANSACTION_RECORDS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("transaction_log", "TransactionLog"),
}
"""The record types in `__transaction_state`."""


def encode(
    record: CoordinatorRecord, value_version: int | None = None
) -> tuple[bytes, bytes | None]:
    """Return key and value as bytes; the value in its newest version unless `value_version` is
    given."""
    key = record.key
    key_type = type(key).API_KEY
    assert key_type is not None
    key_bytes = _INT16.pack(key_type) + b"".join(encoder(type(key), 0)(key))  # type: ignore[arg-type]
    if record.value is None:
        return key_bytes, None
    version = type(record.value).VERSIONS[1] if value_version is None else value_version
    chunks = encoder(type(record.value), version)(record.value)
    return key_bytes, _INT16.pack(version) + b"".join(chunks)  # type: ignore[arg-type]


def decode(
    key: bytes, value: bytes | None, types: Mapping[int, tuple[str, str]]
) -> CoordinatorRecord:
    """Decode a record; raises `ValueError` if it is damaged or its type or version is unknown."""
    if len(key) < _INT16.size:
        raise MalformedMessage(f"a key of {len(key)} bytes has no type")
    (key_type,) = _INT16.unpack_from(key)
    found = types.get(key_type)
    if found is None:
        raise MalformedMessage(f"the type {key_type} is unknown")
    key_class, value_class = _classes(*found)
    key_message = decoder(key_class, 0)(key, 2)[0]
    if value is None:
        return CoordinatorRecord(key_message, None)
    if len(value) < _INT16.size:
        raise MalformedMessage(f"a value of {len(value)} bytes has no version")
    (version,) = _INT16.unpack_from(value)
    value_message = decoder(value_class, version)(value, 2)[0]
    return CoordinatorRecord(key_message, value_message)


@cache
def _classes(module_name: str, prefix: str) -> tuple[type[Message], type[Message]]:
    """Return the classes of a key and its value, imported when the first such record is read."""
    module = importlib.import_module(f"{_RECORDS}.{module_name}")
    return getattr(module, prefix + "Key"), getattr(module, prefix + "Value")
