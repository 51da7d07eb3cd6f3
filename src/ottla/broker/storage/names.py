"""The names of files and folders of a log."""

from __future__ import annotations

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

OFFSET_DIGITS = 20
NAME_LENGTH_MAX = 255
"""The longest file name on common file systems."""


def offset_name(offset: int, suffix: str) -> str:
    """Zero-padded, so that names sort like offsets."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_in_name(name: str, suffix: str) -> int | None:
    """Return the offset in `00000000000000000042.log`; `None` if the name has another format."""
    if not name.endswith(suffix):
        return None
    digits = name[: len(name) - len(suffix)]
    if len(digits) != OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def leading_offset(name: str) -> int | None:
    """Return the offset before the first dot, whatever suffixes follow."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def partition_dir_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_dir_name(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) of a partition's folder; `None` for any other folder."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return topic, int(number)


def future_dir_name(topic: str, partition: int, unique: str) -> str:
    """Return the folder name of a copy that will replace the partition's log. It is never
    shortened: at the next start the name says what it is a copy of."""
    return f"{topic}-{partition}.{unique}{FUTURE_DIR_SUFFIX}"


def parse_future_dir_name(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) for the folder name `topic-N.<unique>-future`."""
    if not name.endswith(FUTURE_DIR_SUFFIX):
        return None
    return parse_partition_dir_name(name[: -len(FUTURE_DIR_SUFFIX)].rpartition(".")[0])


def retired_dir_name(topic: str, partition: int, unique: str, suffix: str) -> str:
    """Return the folder name of a log that is to be removed or set aside.

    The topic is shortened if the name would be too long for a file system: nothing reads it.
    """
    tail = f"-{partition}.{unique}{suffix}"
    return topic[: NAME_LENGTH_MAX - len(tail)] + tail
