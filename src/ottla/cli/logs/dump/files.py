"""The kinds of files, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.storage import leader_epochs
from ottla.broker.storage.dirs import checkpoints, partition_metadata
from ottla.broker.storage.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    leading_offset,
)
from ottla.cli.logs.dump import indexes, side_files
from ottla.cli.logs.dump.contents import metadata_content
from ottla.cli.logs.dump.items import Item, problem
from ottla.cli.logs.dump.segment import dump_segment, mapped

METADATA_TOPIC = "__cluster_metadata"
METADATA_SNAPSHOT_SUFFIX = ".checkpoint"

_BY_NAME = {
    leader_epochs.FILE_NAME: ("leader epochs", side_files.dump_leader_epochs),
    partition_metadata.FILE_NAME: ("partition metadata", side_files.dump_properties),
    "meta.properties": ("identity of a data folder", side_files.dump_properties),
    "quorum-state": ("quorum state", side_files.dump_quorum_state),
    checkpoints.RECOVERY_POINTS: ("recovery points", side_files.dump_offset_checkpoint),
    checkpoints.LOG_START_OFFSETS: ("log start offsets", side_files.dump_offset_checkpoint),
    checkpoints.HIGH_WATERMARKS: ("high watermarks", side_files.dump_offset_checkpoint),
    checkpoints.CLEANER_OFFSETS: ("cleaner offsets", side_files.dump_offset_checkpoint),
}
_BY_SUFFIX = {
    LOG_SUFFIX: "segment",
    METADATA_SNAPSHOT_SUFFIX: "metadata snapshot",
    OFFSET_INDEX_SUFFIX: "offset index",
    TIME_INDEX_SUFFIX: "time index",
    TRANSACTION_INDEX_SUFFIX: "transaction index",
    SNAPSHOT_SUFFIX: "producer snapshot",
}


@dataclass(frozen=True, slots=True)
class Options:
    with_records: bool = False
    raw_metadata: bool = False
    """Show metadata records as plain keys and values instead of decoding them."""


def kind_of(path: Path) -> str | None:
    """Return the kind of a file; None if Ottla does not know it."""
    if path.name in _BY_NAME:
        return _BY_NAME[path.name][0]
    return _BY_SUFFIX.get(path.suffix)


def expand(path: Path) -> list[Path]:
    """Return the file itself, or all known files below a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and kind_of(file))


def dump(path: Path, options: Options) -> Iterator[Item]:
    if path.name in _BY_NAME:
        yield from _BY_NAME[path.name][1](path)
        return
    base_offset = leading_offset(path.name.partition("-")[0])
    match path.suffix:
        case ".log" | ".checkpoint":
            yield from _dump_batches(path, base_offset, options)
        case ".snapshot":
            yield from side_files.dump_snapshot(path)
        case ".txnindex":
            yield from indexes.dump_transaction_index(path)
        case ".index" | ".timeindex" if base_offset is None:
            yield problem("the name must begin with the base offset of the segment")
        case ".index":
            yield from indexes.dump_offset_index(path, base_offset or 0)
        case ".timeindex":
            yield from indexes.dump_time_index(path, base_offset or 0)
        case _:
            yield problem("not a kind of file that is known here")


def _dump_batches(path: Path, base_offset: int | None, options: Options) -> Iterator[Item]:
    is_snapshot = path.suffix == METADATA_SNAPSHOT_SUFFIX
    is_metadata = is_snapshot or path.absolute().parent.name.startswith(METADATA_TOPIC)
    decode = metadata_content if is_metadata and not options.raw_metadata else None
    with mapped(path) as data:
        yield from dump_segment(
            data,
            # Snapshots count their own records from 0, whatever offset they are taken at.
            base_offset=None if is_snapshot else base_offset,
            with_records=options.with_records,
            decode=decode,
        )
