"""Decodes records that the cluster writes for itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ottla.cli.logs.dump.items import Item
from ottla.protocol.codec import decoder
from ottla.protocol.errors import KafkaError, MalformedMessage
from ottla.protocol.schema import Message, Struct
from ottla.protocol.uuids import UUID_SIZE, to_text
from ottla.records.control import ControlType, control_type, read_end_txn_marker
from ottla.records.record import Record

Decode = Callable[[Record], Item | None]
"""Returns the content of a record; None if it is to be shown as plain key and value."""

HIDDEN = "(hidden)"
_BROKER = 4
"""The type of resource in records of settings that belong to brokers."""
_QUORUM_MESSAGES = {
    ControlType.LEADER_CHANGE: ("leader_change_message", "LeaderChangeMessage"),
    ControlType.SNAPSHOT_HEADER: ("snapshot_header_record", "SnapshotHeaderRecord"),
    ControlType.SNAPSHOT_FOOTER: ("snapshot_footer_record", "SnapshotFooterRecord"),
    ControlType.KRAFT_VERSION: ("k_raft_version_record", "KRaftVersionRecord"),
    ControlType.KRAFT_VOTERS: ("voters_record", "VotersRecord"),
}


def metadata_content(record: Record) -> Item | None:
    """Decode a record of the cluster metadata log."""
    from ottla.broker.metadata.records import decode_record

    if record.value is None:
        return None
    try:
        message = decode_record(record.value)
    except MalformedMessage as error:
        return {"kind": "unreadable", "reason": str(error)}
    return {"kind": type(message).__name__, "content": _without_secrets(message)}


def _without_secrets(message: Message) -> Item:
    """Return the fields of a metadata record. Passwords in settings, and what passwords of users
    can be guessed with, are hidden: what is shown may be sent to somebody for help."""
    from ottla.config.names import find_key
    from ottla.protocol.metadata_records.config_record import ConfigRecord
    from ottla.protocol.metadata_records.user_scram_credential_record import (
        UserScramCredentialRecord,
    )

    content: Item = plain(message)
    if isinstance(message, UserScramCredentialRecord):
        return content | dict.fromkeys(("salt", "stored_key", "server_key"), HIDDEN)
    if isinstance(message, ConfigRecord) and message.resource_type == _BROKER:
        key = find_key(message.name)
        # An unknown key is a plugin's, and may be a password.
        if message.value is not None and (key is None or key.sensitive):
            return content | {"value": HIDDEN}
    return content


def control_content(record: Record) -> Item:
    try:
        kind = control_type(record)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            epoch = read_end_txn_marker(record).coordinator_epoch
            return {"kind": kind.name, "content": {"coordinator_epoch": epoch}}
        if kind is None:
            return {"kind": "unknown control record"}
        return {"kind": kind.name, "content": plain(_quorum_message(kind, record.value or b""))}
    except (KafkaError, MalformedMessage) as error:
        return {"kind": "unreadable control record", "reason": str(error)}


def _quorum_message(kind: ControlType, value: bytes) -> Message:
    """Decode a quorum message. Its first field is the version, in every version of the message."""
    module, name = _QUORUM_MESSAGES[kind]
    found = import_module(f"ottla.protocol.control_records.{module}")
    message_class: type[Message] = getattr(found, name)
    version = int.from_bytes(value[:2], "big")
    if version > message_class.VERSIONS[1]:
        raise MalformedMessage(f"{name} version {version} is newer than this Ottla")
    return decoder(message_class, version)(value, 0)[0]


def plain(value: Any) -> Any:
    """Return a message as JSON types; 16 bytes are an id."""
    if isinstance(value, Struct):
        return {field.name: plain(getattr(value, field.name)) for field in value.FIELDS}
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if isinstance(value, (bytes, memoryview)):
        return to_text(bytes(value)) if len(value) == UUID_SIZE else bytes(value).hex()
    return value
