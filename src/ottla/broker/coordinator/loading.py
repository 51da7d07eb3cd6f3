"""Turns the log of a coordinator's partition into the events that a shard replays.

Unreadable data is an event too: one bad record must not keep a coordinator from loading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.broker.coordinator.record_codec import decode
from ottla.buffers import Buffer
from ottla.records.control import ControlType, control_type
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_PRODUCER_ID, BatchHeader, batches
from ottla.records.reader import read_payload
from ottla.records.record import Record


class Written(NamedTuple):
    offset: int
    record: CoordinatorRecord
    producer_id: int


class Ended(NamedTuple):
    """A transaction marker."""

    offset: int
    producer_id: int
    committed: bool


class Unreadable(NamedTuple):
    """A record, or the rest of a batch from `offset` on, that cannot be decoded."""

    offset: int
    reason: str


Event: TypeAlias = Written | Ended | Unreadable


def end_of(data: Buffer, offset: int) -> int:
    """Return the offset to read from after a piece of the log; a batch cut off at the end does not
    count."""
    for header, _ in batches(data):
        offset = max(offset, header.next_offset)
    return offset


def events_of(
    header: BatchHeader, payload: Buffer, types: Mapping[int, tuple[str, str]]
) -> Iterator[Event]:
    """Yield the events of a batch one at a time. Decoding is most of the work of loading, and other
    requests are served in between."""
    offset = header.base_offset
    try:
        for stored in read_payload(header, payload):
            offset = stored.offset
            if not header.is_control:
                yield _written(header, stored, types)
            elif (marker := _marker(header, stored)) is not None:
                yield marker
    except InvalidBatch as error:
        yield Unreadable(offset, error.message)


def _marker(header: BatchHeader, stored: Record) -> Ended | None:
    kind = control_type(stored)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        return Ended(stored.offset, header.producer_id, kind is ControlType.COMMIT)
    return None


def _written(header: BatchHeader, stored: Record, types: Mapping[int, tuple[str, str]]) -> Event:
    if stored.key is None:
        return Unreadable(stored.offset, "it has no key")
    try:
        record = decode(stored.key, stored.value, types)
    except ValueError as error:
        return Unreadable(stored.offset, str(error))
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    return Written(stored.offset, record, producer_id)
