"""The log of a coordinator's partition, as the events that a shard is told while it loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ottla.buffers import Buffer
from ottla.coordinator.outbox import CoordinatorRecord
from ottla.coordinator.record_codec import decode
from ottla.coordinator.shard import Shard
from ottla.records.control import ControlType, control_type
from ottla.records.header import NO_PRODUCER_ID, BatchHeader, batches
from ottla.records.reader import iter_records


class Written(NamedTuple):
    record: CoordinatorRecord
    producer_id: int


class Ended(NamedTuple):
    """A transaction marker."""

    producer_id: int
    committed: bool


Event: TypeAlias = Written | Ended


def end_of(data: Buffer, offset: int) -> int:
    """Where to read on after a piece of the log; a batch cut off at its end does not count."""
    for header, _ in batches(data):
        offset = max(offset, header.next_offset)
    return offset


def events_of(data: Buffer, offset: int, types: Mapping[int, tuple[str, str]]) -> Iterator[Event]:
    """The events from `offset` on in a piece of the log, one at a time: decoding is most of the
    work of loading, and the loop has others to serve in between."""
    for header, batch in batches(data):
        if header.last_offset < offset:
            continue
        if header.is_control:
            yield from _markers(header, batch)
        else:
            yield from _written(header, batch, types)


def _markers(header: BatchHeader, batch: Buffer) -> Iterator[Event]:
    for record in iter_records(batch):
        kind = control_type(record)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            yield Ended(header.producer_id, kind is ControlType.COMMIT)


def _written(
    header: BatchHeader, batch: Buffer, types: Mapping[int, tuple[str, str]]
) -> Iterator[Event]:
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for stored in iter_records(batch):
        # A record without a key is none of ours; one of an unknown type is from a newer version.
        if stored.key is None or len(stored.key) < 2:
            continue
        record = decode(stored.key, stored.value, types)
        if record is not None:
            yield Written(record, producer_id)


def replay(shard: Shard, event: Event) -> None:
    if isinstance(event, Written):
        shard.replay(event.record, event.producer_id)
    else:
        shard.transaction_ended(event.producer_id, committed=event.committed)
