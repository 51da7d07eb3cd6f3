"""Dumps offset, time and transaction indexes and compares them with their segment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.storage.names import LOG_SUFFIX
from ottla.broker.storage.segments.offset_index import OffsetIndex
from ottla.broker.storage.segments.time_index import TimeIndex
from ottla.broker.storage.segments.transaction_index import VERSION as TRANSACTION_INDEX_VERSION
from ottla.cli.logs.dump.items import Item, problem
from ottla.cli.logs.dump.segment import headers, mapped
from ottla.records.header import BatchHeader

_TRANSACTION = struct.Struct(">hqqqq")


def dump_offset_index(path: Path, base_offset: int) -> Iterator[Item]:
    """Each entry must point to the start of a batch whose base offset is not above its own."""
    batches = _batches(path)
    by_position = None if batches is None else dict(batches)
    previous = (-1, -1)
    for relative, position in _entries(path, OffsetIndex.ENTRY):
        if (relative, position) == (0, 0):
            break  # space reserved for later entries
        offset = base_offset + relative
        yield {"type": "entry", "offset": offset, "position": position}
        if relative <= previous[0] or position <= previous[1]:
            yield problem(f"the entry for offset {offset} does not come after the one before it")
        previous = relative, position
        if by_position is None:
            continue
        header = by_position.get(position)
        if header is None:
            yield problem(f"no batch begins at position {position}, as the entry for {offset} says")
        elif header.base_offset > offset:
            yield problem(
                f"the batch at position {position} begins with offset {header.base_offset}, "
                f"after {offset}"
            )
    yield from _missing_log(path, batches)


def dump_time_index(path: Path, base_offset: int) -> Iterator[Item]:
    """Each entry means that no record up to the offset has a later timestamp."""
    batches = _batches(path)
    latest = _latest_by_offset(batches or [])
    previous = (-1, -1)
    for timestamp, relative in _entries(path, TimeIndex.ENTRY):
        if (timestamp, relative) == (0, 0):
            break
        offset = base_offset + relative
        yield {"type": "entry", "timestamp": timestamp, "offset": offset}
        if timestamp <= previous[0] or relative < previous[1]:
            yield problem(f"the entry for time {timestamp} does not come after the one before it")
        previous = timestamp, relative
        if batches is None:
            continue
        if offset not in latest:
            yield problem(f"no batch ends with offset {offset}, as the entry for {timestamp} says")
        elif latest[offset] != timestamp:
            yield problem(
                f"the latest time up to offset {offset} is {latest[offset]}, not {timestamp}"
            )
    yield from _missing_log(path, batches)


def _latest_by_offset(batches: list[tuple[int, BatchHeader]]) -> dict[int, int]:
    """Return the greatest timestamp up to and including the batch that ends at each offset."""
    latest, greatest = {}, -1
    for _, header in batches:
        greatest = max(greatest, header.max_timestamp)
        latest[header.last_offset] = greatest
    return latest


def dump_transaction_index(path: Path) -> Iterator[Item]:
    previous = -1
    for version, producer_id, first, last, stable in _entries(path, _TRANSACTION):
        yield {
            "type": "aborted",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }
        if version != TRANSACTION_INDEX_VERSION:
            yield problem(f"entry version {version} is unknown")
        if last <= previous or first > last:
            yield problem(f"the transaction that ends at {last} is out of place")
        previous = last


def _entries(path: Path, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    data = path.read_bytes()
    return layout.iter_unpack(data[: len(data) - len(data) % layout.size])


def _batches(index: Path) -> list[tuple[int, BatchHeader]] | None:
    """Return the batches of the segment beside an index; None if there is no segment."""
    log = index.with_suffix(LOG_SUFFIX)
    if not log.exists():
        return None
    with mapped(log) as data:
        return [found for found in headers(data) if isinstance(found, tuple)]


def _missing_log(path: Path, batches: list[tuple[int, BatchHeader]] | None) -> Iterator[Item]:
    if batches is None:
        yield problem(f"{path.with_suffix(LOG_SUFFIX).name} is not there to compare with")
