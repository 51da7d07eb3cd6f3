"""Disks that are full or broken."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from storage_tools import FaultyDisk, append, open_log, values_of

from ottla.broker.storage.errors import LogDirFailure, LogFailed
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("partial", [0, 1, 60, 61, 80])
def test_a_failed_write_leaves_nothing_of_the_batch(
    tmp_path: Path, number: int, partial: int
) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    append(log, b"good")
    size = log.size_bytes
    disk.fail("write", number, partial=partial)
    with pytest.raises(LogDirFailure) as caught:
        append(log, b"bad" * 30)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.directory == str(tmp_path)
    assert caught.value.cause.errno == number
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == size
    disk.heal()
    with pytest.raises(LogFailed) as refused:
        append(log, b"later")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    again = open_log(tmp_path / "t-0", clean=False)
    assert values_of(again) == [(0, b"good")]


def test_a_half_batch_that_cannot_be_cut_is_cut_by_recovery(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    append(log, b"good")
    disk.fail("write", errno.ENOSPC, partial=70)
    disk.fail("truncate", errno.EIO)
    disk.partial_bytes = 70
    with pytest.raises(LogDirFailure):
        append(log, b"bad" * 30)
    assert values_of(open_log(tmp_path / "t-0", clean=False)) == [(0, b"good")]


@pytest.mark.parametrize("operation", ["write", "truncate"])
def test_a_full_disk_under_an_index_is_an_error_and_not_a_crash(
    tmp_path: Path, operation: str
) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", SMALL, disk=disk)
    append(log, b"." * 200)
    disk.fail(operation, errno.ENOSPC, where=".index")
    with pytest.raises(LogDirFailure):
        append(log, b"." * 200)
    assert log.end_offset == 1


@pytest.mark.parametrize("where", [".log", ".snapshot", ".timeindex"])
def test_a_roll_that_fails_takes_the_log_offline(tmp_path: Path, where: str) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", SMALL, disk=disk)
    for _ in range(5):
        append(log, b"." * 100)
    disk.fail("open", errno.ENOSPC, where=where)
    with pytest.raises(LogDirFailure):
        append(log, b"." * 100)
    disk.heal()
    assert len(values_of(open_log(tmp_path / "t-0", SMALL, clean=False))) == log.end_offset


def test_a_read_error_takes_the_log_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    for _ in range(300):
        append(log, b"a")
    disk.fail("read", errno.EIO)
    with pytest.raises(LogDirFailure):
        log.read(0, 100, 300)
    with pytest.raises(LogFailed):
        log.read(299, 100, 300)


def test_a_failed_flush_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    append(log, b"a")
    log.flush()
    append(log, b"b")
    disk.fail("sync", errno.EIO)
    with pytest.raises(LogDirFailure):
        log.flush()
    assert log.recovery_point == 1


def test_a_folder_that_cannot_be_read_is_a_failure_of_its_data_folder(tmp_path: Path) -> None:
    disk = FaultyDisk()
    append(open_log(tmp_path / "t-0", disk=disk), b"a")
    for operation in ("list", "read"):
        disk.heal()
        disk.fail(operation, errno.EIO, where="t-0")
        with pytest.raises(LogDirFailure) as caught:
            open_log(tmp_path / "t-0", disk=disk, clean=False)
        assert caught.value.directory == str(tmp_path)
