"""Shared by the compaction tests: cleaning step by step, and reading as committed readers do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from storage_tools import NOW_MS

from ottla.broker.storage.cleaner.choice import CleanableLog, assess
from ottla.broker.storage.cleaner.compaction import compact
from ottla.broker.storage.cleaner.job import CleanedGroup, Finished, Memory
from ottla.broker.storage.cleaner.planning import cleaned_segment, plan_job
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_reading import aborted_transactions
from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.header import BatchHeader, batches, read_header
from ottla.records.reader import check_crc, read_records
from ottla.records.record import Record
from ottla.runtime.disk import Disk

MEMORY = Memory(map_bytes=1 << 16, load_factor=0.9, block_bytes=1 << 12)
COMPACT = frozenset({"compact"})


def compacted(**settings: Any) -> TopicConfig:
    settings.setdefault("segment_bytes", 1 << 20)
    return TopicConfig(cleanup_policy=COMPACT, **settings)


def put(
    log: Log,
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    *,
    now_ms: int = NOW_MS,
    epoch: int = 0,
    **fields: Any,
) -> int:
    """Append one batch of (key, value); its base offset."""
    records = [
        Record(index, now_ms + index, key, value, (("h", b"%d" % index),))
        for index, (key, value) in enumerate(pairs)
    ]
    batch = bytearray(build_batch(records, **fields))
    return log.append(batch, read_header(batch), epoch, now_ms).base_offset


def end_transaction(
    log: Log, producer_id: int, *, committed: bool, now_ms: int = NOW_MS, producer_epoch: int = 0
) -> int:
    marker = bytearray(
        end_txn_marker(
            committed=committed,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now_ms,
        )
    )
    return log.append(marker, read_header(marker), 0, now_ms).base_offset


def cleaning(
    disk: Disk, chosen: CleanableLog, now_ms: int, memory: Memory = MEMORY
) -> Iterator[CleanedGroup | Finished | str]:
    """One run, with a stop wherever the real cleaner gives way to something else."""
    log = chosen.log
    generation = log.generation
    segments = {segment.base_offset: segment for segment in log.segments}
    log.flush()
    for step in compact(disk, plan_job(chosen, memory, now_ms)):
        if isinstance(step, CleanedGroup):
            yield step
            cleaned = cleaned_segment(disk, log, step, now_ms)
            replaced = [segments[base_offset] for base_offset in step.replaced]
            replacement = log.replace_segments(cleaned, replaced, generation)
            yield "begun"
            replacement.prepare()
            yield "prepared"
            replacement.install()
            yield "installed"
            replacement.retire()
            yield "retired"
            replacement.finish()
            yield "finished"
        elif isinstance(step, Finished):
            yield step


def clean(
    log: Log,
    checkpoint: int | None = None,
    *,
    now_ms: int = NOW_MS,
    memory: Memory = MEMORY,
    high_watermark: int | None = None,
) -> Finished | None:
    """Clean what can be cleaned, whatever the ratio."""
    mark = log.end_offset if high_watermark is None else high_watermark
    chosen = assess(log, checkpoint, mark, now_ms)
    if chosen is None:
        return None
    *_, finished = cleaning(log.disk, chosen, now_ms, memory)
    assert isinstance(finished, Finished)
    return finished


def read_batches(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Every batch of the log, checked."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while (part := log.read(offset, 1 << 20, log.end_offset)) is not None:
        for header, batch in batches(part.read()):
            check_crc(header, batch)
            assert header.base_offset >= (found[-1][0].next_offset if found else 0)
            found.append((header, bytes(batch)))
            offset = header.next_offset
    return found


def all_records(log: Log) -> list[Record]:
    """Of all data batches."""
    return [r for h, batch in read_batches(log) if not h.is_control for r in read_records(batch)]


def committed_records(log: Log) -> list[Record]:
    """As a client with `read_committed` finds them: by the list of aborted transactions that the
    broker gives it, and the markers in the log."""
    aborted = sorted(
        aborted_transactions(log.segments, log.log_start_offset, log.end_offset),
        key=lambda entry: entry.first_offset,
    )
    skipping: set[int] = set()
    found: list[Record] = []
    for header, batch in read_batches(log):
        while aborted and aborted[0].first_offset <= header.last_offset:
            skipping.add(aborted.pop(0).producer_id)
        if header.is_control:
            records = read_records(batch)
            if records and records[0].key is not None and records[0].key[3] == 0:
                skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            found += read_records(batch)
    return found


def pairs_of(records: Iterable[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]
