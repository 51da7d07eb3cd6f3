"""Dumps segments and metadata snapshots: batches, and on request the records in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

from ottla.cli.logs.dump.contents import Decode, control_content
from ottla.cli.logs.dump.items import Item, problem
from ottla.cli.records.writing import put_bytes
from ottla.protocol.errors import KafkaError
from ottla.records.errors import InvalidBatch
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from ottla.records.reader import check_crc, read_records
from ottla.records.record import Record


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """Map the bytes of a file into memory, so that it may be of any size."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield memoryview(b"")
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data, memoryview(data) as view:
            yield view


def headers(data: memoryview) -> Iterator[tuple[int, BatchHeader] | Item]:
    """Yield (position, header) of each batch; a problem if no further batch can be found."""
    position, end = 0, len(data)
    while position < end:
        if end - position < HEADER_SIZE:
            yield problem(
                f"{end - position} bytes are left after the last batch", position=position
            )
            return
        header = read_header(data, position)
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or header.magic != MAGIC:
            yield problem(
                f"no batch here: length {header.batch_length}, format {header.magic}",
                position=position,
            )
            return
        if position + header.size > end:
            yield problem(
                f"the last batch is cut: {header.size} bytes, of which {end - position} are there",
                position=position,
            )
            return
        yield position, header
        position += header.size


def dump_segment(
    data: memoryview, *, base_offset: int | None, with_records: bool, decode: Decode | None
) -> Iterator[Item]:
    next_offset = base_offset or 0
    for found in headers(data):
        if isinstance(found, dict):
            yield found
            return
        position, header = found
        batch = data[position : position + header.size]
        item = batch_item(position, header)
        wrong = _wrong(header, batch, next_offset)
        item["valid"] = not wrong
        yield item
        for message in wrong:
            yield problem(message, position=position)
        next_offset = max(next_offset, header.next_offset)
        if with_records or (decode is not None and not wrong):
            yield from _records(header, batch, position, decode)


def _wrong(header: BatchHeader, batch: memoryview, next_offset: int) -> list[str]:
    messages = []
    if header.base_offset < next_offset:
        messages.append(f"base offset {header.base_offset} where {next_offset} is the next")
    if header.last_offset_delta < 0:
        messages.append(f"the last offset lies {-header.last_offset_delta} before the first")
    try:
        check_crc(header, batch)
    except InvalidBatch as error:
        messages.append(error.message)
    return messages


def batch_item(position: int, header: BatchHeader) -> Item:
    return {
        "type": "batch",
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "codec": _codec(header),
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
    }


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except InvalidBatch:
        return f"unknown {header.attributes & 7}"


def _records(
    header: BatchHeader, batch: memoryview, position: int, decode: Decode | None
) -> Iterator[Item]:
    try:
        records = read_records(batch)
    except KafkaError as error:
        yield problem(f"the records cannot be read: {error.message}", position=position)
        return
    for record in records:
        yield _record_item(header, record, decode)


def _record_item(header: BatchHeader, record: Record, decode: Decode | None) -> Item:
    item: Item = {"type": "record", "offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        item |= control_content(record)
        return item
    content = decode(record) if decode is not None else None
    if content is not None:
        return item | content
    put_bytes(item, "key", record.key)
    put_bytes(item, "value", record.value)
    item["headers"] = []
    for name, value in record.headers:
        entry: Item = {"name": name}
        put_bytes(entry, "value", value)
        item["headers"].append(entry)
    return item
