"""The quorum's control records as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard, cast

from ottla.broker.raft.log_view import ControlRecord
from ottla.buffers import Buffer
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage
from ottla.protocol.control_records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.control_records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.control_records.voters_record import VotersRecord
from ottla.protocol.errors import ErrorCode, MalformedMessage
from ottla.protocol.schema import Message
from ottla.records.control import ControlType, control_batch, control_type
from ottla.records.errors import InvalidBatch
from ottla.records.reader import read_records
from ottla.records.record import Record

_TYPES: Final[dict[type[Message], ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
}
_CLASSES: Final = {kind: record_class for record_class, kind in _TYPES.items()}


def encode_batch(
    records: Sequence[Message], *, epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytes:
    """Encode one control batch. The first field of each of these records is its version."""
    return control_batch(
        [(_TYPES[type(record)], _encoded(record)) for record in records],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
    )


def _encoded(record: Any) -> bytes:
    return b"".join(cast("list[bytes]", encoder(type(record), record.version)(record)))


def decode_batch(batch: Buffer) -> Iterator[tuple[int, Message]]:
    """Yield (offset, record) of a control batch; unknown kinds are left out.

    Raises `InvalidBatch` if a record cannot be decoded.
    """
    for record in read_records(batch):
        kind = control_type(record)
        if kind in _CLASSES:
            yield record.offset, _decoded(record, _CLASSES[kind])


def _decoded(record: Record, record_class: type[Message]) -> Message:
    value = record.value or b""
    version = min(int.from_bytes(value[:2], "big"), record_class.VERSIONS[1])
    try:
        return decoder(record_class, version)(value, 0)[0]
    except MalformedMessage as error:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"the control record at offset {record.offset}: {error}"
        ) from error


def is_of_quorum(record: Message) -> TypeGuard[ControlRecord]:
    """True for control records other than the header and the footer of a snapshot."""
    return isinstance(record, ControlRecord)
