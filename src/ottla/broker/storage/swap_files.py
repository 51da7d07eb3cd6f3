"""Handles files left over from a compaction or deletion that a crash interrupted.

A compacted segment is written as `.cleaned`, becomes `.swap` once it is complete, then replaces the
segments it was made from. So at start, `.cleaned` is incomplete and is removed; `.swap` is complete
and replaces its segments; `.deleted` is removed.
"""

from __future__ import annotations

import os.path

from ottla.broker.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    leading_offset,
)
from ottla.broker.storage.segments.batch_scan import BrokenBatch, scan
from ottla.logs import get_logger
from ottla.records.header_fields import BASE_OFFSET, LAST_OFFSET_DELTA
from ottla.runtime.disk import Disk

logger = get_logger("ottla.storage.recovery")

_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


def finish_interrupted_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Finish or remove all leftovers; return the names that are then in the folder."""
    if not any(_is_leftover(name) for name in names):
        return names
    swaps = _remove_unfinished(disk, directory, names)
    if swaps:
        _replace_segments(disk, directory, swaps)
    disk.sync_dir(directory)
    return disk.list_dir(directory)


def _is_leftover(name: str) -> bool:
    """True for a leftover file of a segment; snapshots of the metadata log in the same folder do
    not count."""
    return name.endswith(_LEFTOVER_SUFFIXES) and leading_offset(name) is not None


def _remove_unfinished(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Remove `.deleted` and `.cleaned`, and `.swap` that cannot be trusted; return the good
    `.swap`."""
    cleaned = [leading_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    cleaned_from = min((offset for offset in cleaned if offset is not None), default=None)
    swaps = []
    for name in names:
        if name.endswith(SWAP_SUFFIX):
            offset = leading_offset(name)
            # A `.swap` at or after an incomplete file belongs to the same failed attempt.
            if offset is not None and (cleaned_from is None or offset < cleaned_from):
                swaps.append(name)
                continue
        if _is_leftover(name):
            logger.info("Removing leftover file %s", os.path.join(directory, name))
            disk.remove(os.path.join(directory, name))
    return swaps


def _replace_segments(disk: Disk, directory: str, swaps: list[str]) -> None:
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        spans = [_span(disk, directory, name) for name in logs]
        first, following = min(span[0] for span in spans), max(span[1] for span in spans)
        for name in disk.list_dir(directory):
            if _is_replaced(name, first, following):
                logger.info("Removing %s/%s: a compacted segment replaces it", directory, name)
                disk.remove(os.path.join(directory, name))
    # Rename logs first: while a log has its ending, no index beside it belongs to it already.
    for name in sorted(swaps, key=lambda name: name not in logs):
        logger.info("Finishing the interrupted replacement of %s/%s", directory, name)
        disk.rename(
            os.path.join(directory, name), os.path.join(directory, name[: -len(SWAP_SUFFIX)])
        )


def _is_replaced(name: str, first: int, following: int) -> bool:
    """True for files of segments that begin in this range. A snapshot at its start stays valid."""
    offset = leading_offset(name)
    if offset is None:
        return False
    if name.endswith(SNAPSHOT_SUFFIX):
        return first < offset < following
    return name.endswith(SEGMENT_SUFFIXES) and first <= offset < following


def _span(disk: Disk, directory: str, name: str) -> tuple[int, int]:
    """Return (base offset, offset after the last batch) of a `.log.swap`."""
    base_offset = leading_offset(name) or 0
    following = base_offset
    file = disk.open(os.path.join(directory, name))
    try:
        for _, header in scan(file, 0, file.size()):
            following = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
    except BrokenBatch as broken:
        logger.warning("%s/%s: %s", directory, name, broken)
    finally:
        file.close()
    return base_offset, following
