"""Checks that a metadata log is complete, before anything in its folder changes.

A log that was damaged, truncated or emptied would give topics, settings and leaders of an earlier
time, or none, and the data of other topics would be set aside. A node that is refused finds its
files as they were.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.metadata.image import METADATA_TOPIC
from ottla.broker.quorum import committed_mark, snapshot_files
from ottla.broker.quorum.log import start_offset
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.storage.dirs import clean_shutdown
from ottla.broker.storage.errors import CorruptFile, LogDirFailure
from ottla.broker.storage.names import (
    LOG_SUFFIX,
    offset_in_name,
    offset_name,
    parse_partition_dir_name,
)
from ottla.broker.storage.segments.batch_scan import BrokenBatch, verify
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.records.header_fields import BASE_OFFSET, LAST_OFFSET_DELTA, PARTITION_LEADER_EPOCH
from ottla.runtime.disk import Disk

log = get_logger("ottla.metadata")


class Extent(NamedTuple):
    """How much of a metadata log can be read."""

    end_offset: int
    """The offset after the last record in the log or in a snapshot. A log that ends before the last
    snapshot is started anew at that snapshot."""
    damage: CorruptFile | None


def check_is_whole(
    disk: Disk, directory: str, settings: RaftSettings, config: BrokerConfig, *, clean: bool
) -> bool:
    """Raise `CorruptFile` if this node must not continue with the log in `directory`; return
    whether it can be opened without recovery. `clean`: the last shutdown was clean.

    A broker that is not a controller has promised nothing to the quorum: it fetches missing records
    again. After a crash the log may end in a batch that was never complete; recovery removes it.
    """
    try:
        extent = examine(disk, directory)
        known = committed_mark.read(disk, directory)
    except OSError as error:
        raise LogDirFailure(os.path.dirname(directory), error) from error
    is_alone = config.is_alone or settings.static_voters.is_only(settings.key)
    if extent.end_offset < known or (extent.damage is not None and clean):
        told = _damage_error(extent, directory, known)
        if not settings.can_be_voter:
            log.warning("%s. They are fetched again", told)
        elif is_alone:
            raise CorruptFile(
                told.path, f"{told.reason}. {_way_on_alone(extent, directory, clean)}"
            )
        else:
            raise CorruptFile(told.path, f"{told.reason}. {_way_on_with_others(directory)}")
    if is_alone and not extent.end_offset:
        folder = next(_partition_folders(disk, config), None)
        if folder is not None:
            raise CorruptFile(
                directory,
                f"the metadata log is empty, and there is data of partitions, as in {folder}. "
                "Restore the metadata log from a copy. To go on without it, move the folders of "
                "partitions away",
            )
    return clean and extent.damage is None


def examine(disk: Disk, directory: str) -> Extent:
    """Read the log up to the first batch that is not whole. Changes nothing."""
    names = disk.list_dir(directory) if disk.exists(directory) else []
    snapshots = snapshot_files.find(names)
    first = start_offset(directory, names, snapshots)
    least = max(first, snapshots[-1].offset if snapshots else 0)
    bases = sorted(b for name in names if (b := offset_in_name(name, LOG_SUFFIX)) is not None)
    end_offset, epoch = (bases[0] if bases else first), -1
    for base_offset in bases:
        path = f"{directory}/{offset_name(base_offset, LOG_SUFFIX)}"
        if base_offset != end_offset:
            lost = f"offsets {end_offset} to {base_offset - 1} are missing before it"
            return Extent(max(least, end_offset), CorruptFile(path, lost))
        file = disk.open(path)
        try:
            for position, header, _ in verify(file, file.size()):
                offset, its_epoch = header[BASE_OFFSET], header[PARTITION_LEADER_EPOCH]
                length = header[LAST_OFFSET_DELTA] + 1
                if offset < end_offset or length < 1 or 0 <= its_epoch < epoch:
                    reason = f"offset {offset} of epoch {its_epoch} cannot follow epoch {epoch}"
                    raise BrokenBatch(position, reason)
                end_offset, epoch = offset + length, its_epoch
        except BrokenBatch as broken:
            reason = (
                f"no valid batch at byte {broken.position}, where offset {end_offset} begins: "
                f"{broken.reason}"
            )
            return Extent(max(least, end_offset), CorruptFile(path, reason))
        finally:
            file.close()
    return Extent(max(least, end_offset), None)


def _damage_error(extent: Extent, directory: str, known: int) -> CorruptFile:
    """Return what is wrong: in which file, from which offset on."""
    if extent.damage is None:
        reason = (
            f"it ends at offset {extent.end_offset}, and offsets up to {known - 1} were committed"
        )
        return CorruptFile(directory, reason)
    if extent.end_offset < known:
        reason = f"{extent.damage.reason}; offsets up to {known - 1} were committed"
        return CorruptFile(extent.damage.path, reason)
    reason = f"{extent.damage.reason}; the folder was closed properly, so it was whole then"
    return CorruptFile(extent.damage.path, reason)


def _way_on_alone(extent: Extent, directory: str, clean: bool) -> str:
    files = [f"{directory}/{committed_mark.FILE_NAME}"]
    if clean and extent.damage is not None:
        files.append(f"{os.path.dirname(directory)}/{clean_shutdown.FILE_NAME}")
    return (
        f"Restore {directory} from a copy. To go on with what is left, remove "
        f"{' and '.join(files)}: topics and settings that the lost records made are then unknown, "
        "and data of unknown topics is set aside in folders named -stray"
    )


def _way_on_with_others(directory: str) -> str:
    return (
        f"Restore {directory} from a copy, or, while all other controllers run and have a leader, "
        f"move {directory} away: this node then fetches the metadata from them. It must not vote "
        "without records that it has acknowledged"
    )


def _partition_folders(disk: Disk, config: BrokerConfig) -> Iterator[str]:
    for log_dir in config.log_dirs:
        for name in sorted(disk.list_dir(log_dir)) if disk.exists(log_dir) else ():
            parsed = parse_partition_dir_name(name)
            if parsed is not None and parsed[0] != METADATA_TOPIC:
                yield f"{log_dir}/{name}"
