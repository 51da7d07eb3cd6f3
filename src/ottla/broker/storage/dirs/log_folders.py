"""Renames the folder of a log: deletes it, sets it aside, or puts a copy in its place."""

from __future__ import annotations

import os.path

from ottla.broker.storage.errors import LogDirFailure
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import (
    DELETE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    partition_dir_name,
    retired_dir_name,
)


def delete(log: Log, unique: str) -> str:
    """Rename the folder and return its new path, for removal after the delay.

    `unique` distinguishes it from folders of other deleted topics of the same name.
    """
    return _retire(log, unique, DELETE_DIR_SUFFIX, "deleted")


def set_aside(log: Log, unique: str) -> str:
    """Like `delete`, but under a name that marks the partition as unknown, for an operator to look
    at."""
    return _retire(log, unique, STRAY_DIR_SUFFIX, "set aside")


def _retire(log: Log, unique: str, suffix: str, reason: str) -> str:
    target = _retired_path(log, unique, suffix)
    log.failure = reason
    _cancel_work(log)
    _rename(log, target)
    log.segments.move(target)
    log.segments.release()
    return target


def replace(current: Log, future: Log, unique: str) -> str:
    """Make `future`, a complete copy, the log in place of `current`. Returns the new path of the
    files of `current`, for removal after the delay.

    The old folder is renamed first: a crash between the two steps leaves a copy that the metadata
    names, and never two logs of one partition. After `LogDirFailure` everything is as before.
    """
    retired = _retired_path(current, unique, DELETE_DIR_SUFFIX)
    place = _usual_path(future)
    # a flush in a thread must not fail because of missing files
    current.failure = "moved to another data folder"
    try:
        _exchange(current, future, retired, place)
    except LogDirFailure:
        current.failure = None
        raise
    future.deleted_files.move(place)
    future.segments.move(place)
    _cancel_work(current)
    current.segments.move(retired)
    current.segments.release()
    _inherit(current, future)
    return retired


def _exchange(current: Log, future: Log, retired: str, place: str) -> None:
    _rename(current, retired)
    try:
        _rename(future, place)
    except LogDirFailure:
        try:
            current.disk.rename(retired, current.directory)
        except OSError as worse:
            raise LogDirFailure(current.parent_directory, worse) from worse
        raise


def _inherit(current: Log, future: Log) -> None:
    """Take over the state that the records do not contain: epochs without records, producers whose
    records are gone, and pending verifications of transactions."""
    future.increment_log_start_offset(current.log_start_offset)
    future.epochs.take_over(current.epochs)
    future.producers.take_over(current.producers)


def promote(future: Log) -> None:
    """Make a future copy the log of the partition, after the original is gone."""
    place = _usual_path(future)
    _rename(future, place)
    future.deleted_files.clear()
    future.segments.move(place)


def _cancel_work(log: Log) -> None:
    """Cancel everything that was begun."""
    log.flusher.cancel()
    if log.replacement is not None:
        log.replacement.forget()
    log.deleted_files.clear()


def _rename(log: Log, target: str) -> None:
    try:
        log.disk.rename(log.directory, target)
    except OSError as error:
        raise LogDirFailure(log.parent_directory, error) from error


def _usual_path(log: Log) -> str:
    return os.path.join(log.parent_directory, partition_dir_name(log.topic, log.partition))


def _retired_path(log: Log, unique: str, suffix: str) -> str:
    name = retired_dir_name(log.topic, log.partition, unique, suffix)
    return os.path.join(log.parent_directory, name)
