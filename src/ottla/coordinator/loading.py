"""The log of a coordinator's partition, as the events that a shard is told while it loads."""

from __future__ import annotations

from collections.abc import Mapping
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


class LoadedSlice(NamedTuple):
    events: list[Event]
    next_offset: int
    """Where to read on."""


def decode_slice(data: Buffer, offset: int, types: Mapping[int, tuple[str, str]]) -> LoadedSlice:
    """The events from `offset` on in a piece of the log; a batch cut off at its end is left."""
    events: list[Event] = []
    next_offset = offset
    for header, batch in batches(data):
        if header.last_offset < offset:
            continue
        if header.is_control:
            events += _markers(header, batch)
        else:
            events += _written(header, batch, types)
        next_offset = header.next_offset
    return LoadedSlice(events, next_offset)


def _markers(header: BatchHeader, batch: Buffer) -> list[Event]:
    kinds = (control_type(record) for record in iter_records(batch))
    return [
        Ended(header.producer_id, kind is ControlType.COMMIT)
        for kind in kinds
        if kind in (ControlType.COMMIT, ControlType.ABORT)
    ]


def _written(
    header: BatchHeader, batch: Buffer, types: Mapping[int, tuple[str, str]]
) -> list[Event]:
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    events: list[Event] = []
    for stored in iter_records(batch):
        # A record without a key is none of ours; one of an unknown type is from a newer version.
        if stored.key is None or len(stored.key) < 2:
            continue
        record = decode(stored.key, stored.value, types)
        if record is not None:
            events.append(Written(record, producer_id))
    return events


def replay(shard: Shard, events: list[Event]) -> None:
    for event in events:
        if isinstance(event, Written):
            shard.replay(event.record, event.producer_id)
        else:
            shard.transaction_ended(event.producer_id, committed=event.committed)
