"""Metadata records as bytes: a frame version, the record's kind and version, then the record.

The three numbers in front are unsigned varints. The frame version has only ever been 1.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from ottla.buffers import Buffer
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import Message

FRAME_VERSION: Final = 1

METADATA_VERSION_FEATURE: Final = "metadata.version"
METADATA_VERSION_LEVEL: Final = 30
"""The level of Kafka 4.3 (4.3-IV0), which determines the record versions written below."""

_KINDS: Final[dict[int, tuple[str, int]]] = {
    0: ("RegisterBrokerRecord", 4),
    1: ("UnregisterBrokerRecord", 0),
    2: ("TopicRecord", 0),
    3: ("PartitionRecord", 2),
    4: ("ConfigRecord", 0),
    5: ("PartitionChangeRecord", 2),
    7: ("FenceBrokerRecord", 0),
    8: ("UnfenceBrokerRecord", 0),
    9: ("RemoveTopicRecord", 0),
    10: ("DelegationTokenRecord", 0),
    11: ("UserScramCredentialRecord", 0),
    12: ("FeatureLevelRecord", 0),
    14: ("ClientQuotaRecord", 0),
    15: ("ProducerIdsRecord", 0),
    17: ("BrokerRegistrationChangeRecord", 3),
    18: ("AccessControlEntryRecord", 0),
    19: ("RemoveAccessControlEntryRecord", 0),
    20: ("NoOpRecord", 0),
    21: ("ZkMigrationStateRecord", 0),
    22: ("RemoveUserScramCredentialRecord", 0),
    23: ("BeginTransactionRecord", 0),
    24: ("EndTransactionRecord", 0),
    25: ("AbortTransactionRecord", 0),
    26: ("RemoveDelegationTokenRecord", 0),
    27: ("RegisterControllerRecord", 0),
    28: ("ClearElrRecord", 0),
}
"""API key of the record -> its name and the version in which it is written."""

_KEYS: Final = {name: key for key, (name, _) in _KINDS.items()}

_Decode = Callable[[Buffer, int], tuple[Any, int]]
_Encode = Callable[[Any], list[Any]]
_decoders: dict[bytes, _Decode] = {}
_encoders: dict[str, tuple[bytes, _Encode]] = {}


def encode_record(record: Message) -> bytes:
    """Return the value of a log record that contains this metadata record."""
    name = record.__class__.__name__
    known = _encoders.get(name)
    if known is None:
        known = _encoders[name] = _make_encoder(name)
    prefix, encode = known
    return b"".join((prefix, *encode(record)))


def decode_record(value: Buffer) -> Message:
    """Return the metadata record in a log record's value; raises `MalformedMessage` if it is
    unknown."""
    # All known keys and versions fit into one byte each, so the frame is almost always three bytes
    # long, and its decoder is found with one lookup.
    prefix = bytes(value[:3])
    decode = _decoders.get(prefix)
    if decode is None:
        decode = _decoders[prefix] = _make_decoder(prefix)
    record, end = decode(value, 3)
    if end != len(value):
        raise MalformedMessage(
            f"{len(value) - end} bytes follow a {record.__class__.__name__} of the metadata log"
        )
    return record  # type: ignore[no-any-return]


def record_class(name: str) -> type[Message]:
    """Return the class of a metadata record, imported when first needed."""
    module = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    found = importlib.import_module(f"ottla.protocol.metadata_records.{module}")
    return getattr(found, name)  # type: ignore[no-any-return]


def _make_encoder(name: str) -> tuple[bytes, _Encode]:
    key = _KEYS[name]
    version = _KINDS[key][1]
    return bytes((FRAME_VERSION, key, version)), encoder(record_class(name), version)


def _make_decoder(prefix: bytes) -> _Decode:
    if len(prefix) < 3 or max(prefix) > 0x7F:
        raise MalformedMessage(f"metadata record with the impossible frame {prefix.hex()}")
    frame_version, key, version = prefix
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(f"metadata record frame version {frame_version}, known is 1")
    if key not in _KINDS or version > _KINDS[key][1]:
        raise MalformedMessage(
            f"metadata record {key} version {version} is newer than this Ottla: "
            "start the version that wrote it"
        )
    return decoder(record_class(_KINDS[key][0]), version)
