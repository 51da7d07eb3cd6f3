"""Control batches: brokers write them into logs for each other, and consumers skip them.

A control record's key has its type (version int16, type int16); the value depends on the type. The
values of the quorum's records are messages of the protocol, so they are passed in encoded.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.records.builder import build_batch
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.record import Record

_KEY = struct.Struct(">hh")
_END_TXN_VALUE = struct.Struct(">hi")
_CURRENT_VERSION = 0


class ControlType(IntEnum):
    """The types of control records; unknown ones must be ignored, not refused."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """A transaction marker: the end of a transaction in one partition."""

    committed: bool
    coordinator_epoch: int


def control_batch(
    records: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """Build a control batch of (type, encoded value) records."""
    return build_batch(
        [
            Record(offset, timestamp_ms, _KEY.pack(_CURRENT_VERSION, kind), value)
            for offset, (kind, value) in enumerate(records, base_offset)
        ],
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def end_txn_marker(
    *,
    committed: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the marker that ends a producer's transaction in a partition."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    return control_batch(
        [(kind, _END_TXN_VALUE.pack(_CURRENT_VERSION, coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def leader_change_batch(
    message: bytes, *, leader_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytes:
    """Build the first batch of a quorum leader; `message` is its encoded LeaderChangeMessage."""
    return control_batch(
        [(ControlType.LEADER_CHANGE, message)],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )


def control_type(record: Record) -> ControlType | None:
    """Return the type of a control record; None if a later version of Kafka defines it."""
    version, number = _unpack(_KEY, record.key, "key")
    if version < 0:
        raise _broken(f"the version of a control record key is {version}")
    try:
        return ControlType(number)
    except ValueError:
        return None


def read_end_txn_marker(record: Record) -> EndTxnMarker:
    """Decode an ABORT or COMMIT record."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise _broken(f"a control record of type {kind} does not end a transaction")
    version, coordinator_epoch = _unpack(_END_TXN_VALUE, record.value, "value")
    if version < 0:
        raise _broken(f"the version of a transaction marker is {version}")
    return EndTxnMarker(kind is ControlType.COMMIT, coordinator_epoch)


def _unpack(layout: struct.Struct, data: bytes | None, part: str) -> tuple[int, int]:
    # Later versions may append fields: only data that is too short is wrong.
    if data is None or len(data) < layout.size:
        found = "nothing" if data is None else f"{len(data)} bytes"
        raise _broken(f"the {part} of a control record needs {layout.size} bytes, found {found}")
    first, second = layout.unpack_from(data)
    return first, second


def _broken(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)
