"""Snapshots of the metadata log as files: `<end offset>-<epoch>.checkpoint`, as Kafka writes them.

A snapshot is a sequence of batches: one with a header record (and, if voters can change, their
set), batches of metadata records, and one with a footer. Until it is complete and on disk its file
is called `.checkpoint.part`, so a file with the final name can be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ottla.broker.quorum.control_codec import decode_batch, encode_batch, is_of_quorum
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.broker.raft.log_view import ControlRecord
from ottla.protocol.control_records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.control_records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.schema import Message
from ottla.records.builder import build_batch
from ottla.records.errors import InvalidBatch
from ottla.records.header import BatchHeader, batches
from ottla.records.reader import check_crc
from ottla.records.record import Record
from ottla.runtime.disk import Disk

READ_BYTES: Final = 8 * 1024 * 1024
PART_SUFFIX: Final = ".part"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART_NAME = re.compile(r"\d{20}-\d{10}\.checkpoint\.part")


class SnapshotDamaged(Exception):
    """The file is not a complete snapshot."""


def name_of(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"


def path_of(directory: str, snapshot: OffsetAndEpoch) -> str:
    return f"{directory}/{name_of(snapshot)}"


def find(names: Iterable[str]) -> list[OffsetAndEpoch]:
    """Return the snapshots among the names in a folder, oldest first."""
    found = [_NAME.fullmatch(name) for name in names]
    return sorted(OffsetAndEpoch(int(match[1]), int(match[2])) for match in found if match)


def remove_parts(disk: Disk, directory: str, names: Iterable[str]) -> None:
    """Remove snapshots that an earlier run did not finish."""
    for name in names:
        if _PART_NAME.fullmatch(name):
            disk.remove(f"{directory}/{name}")


# Writing


def snapshot_batches(
    values: Iterable[Sequence[bytes]],
    control: Sequence[Message],
    *,
    epoch: int,
    timestamp_ms: int,
) -> Iterator[bytes]:
    """Yield the batches of a snapshot: `values` are the records, split into batches."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    first = [header, *control]
    yield encode_batch(first, epoch=epoch, timestamp_ms=timestamp_ms)
    offset = len(first)
    for part in values:
        records = [Record(offset + i, timestamp_ms, None, v, ()) for i, v in enumerate(part)]
        yield build_batch(records, partition_leader_epoch=epoch)
        offset += len(records)
    yield encode_batch(
        [SnapshotFooterRecord()], epoch=epoch, timestamp_ms=timestamp_ms, base_offset=offset
    )


def write(disk: Disk, directory: str, name: str, content: Iterable[bytes]) -> int:
    """Write a durable file of these batches, all or nothing; return its size. Meant for a
    thread."""
    path = f"{directory}/{name}"
    file = disk.open(path + PART_SUFFIX, create=True)
    try:
        file.truncate(0)
        size = 0
        for batch in content:
            size += file.write_at(size, [batch])
        file.sync()
    finally:
        file.close()
    disk.rename(path + PART_SUFFIX, path)
    disk.sync_dir(directory)
    return size


def finish_part(disk: Disk, directory: str, snapshot: OffsetAndEpoch) -> bool:
    """Verify a fetched snapshot and make it durable under its name. If it is damaged, remove it and
    return False. Meant for a thread."""
    path = path_of(directory, snapshot)
    part = path + PART_SUFFIX
    try:
        check(disk, part)
    except SnapshotDamaged:
        disk.remove(part)
        return False
    file = disk.open(part)
    try:
        file.sync()
    finally:
        file.close()
    disk.rename(part, path)
    disk.sync_dir(directory)
    return True


# Reading


def read_batches(disk: Disk, path: str) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every batch of the file, verified; raises `SnapshotDamaged` if one is not whole."""
    file = disk.open(path)
    try:
        size, position, wanted = file.size(), 0, READ_BYTES
        while position < size:
            taken = 0
            for header, batch in batches(file.read_at(position, wanted)):
                check_crc(header, batch)
                yield header, batch
                taken += header.size
            if not taken and (wanted >= size - position):
                raise SnapshotDamaged(f"{path} is cut inside of a batch at byte {position}")
            wanted = READ_BYTES if taken else 2 * wanted
            position += taken
    except InvalidBatch as error:
        raise SnapshotDamaged(f"{path} is damaged: {error}") from error
    finally:
        file.close()


def check(disk: Disk, path: str) -> None:
    """Raise `SnapshotDamaged` unless every batch is whole and there are a header and a footer."""
    first: Message | None = None
    last: Message | None = None
    for header, batch in read_batches(disk, path):
        last = None
        if header.is_control:
            control = [record for _, record in decode_batch(batch)]
            first = first or (control[0] if control else None)
            last = control[-1] if control else None
    if not isinstance(first, SnapshotHeaderRecord) or not isinstance(last, SnapshotFooterRecord):
        raise SnapshotDamaged(f"{path} does not begin with a header and end with a footer")


def control_records(disk: Disk, path: str) -> list[ControlRecord]:
    """Return the snapshot's records about voters and `kraft.version`, which are in its first
    batch."""
    for header, batch in read_batches(disk, path):
        if not header.is_control:
            break
        return [record for _, record in decode_batch(batch) if is_of_quorum(record)]
    return []
