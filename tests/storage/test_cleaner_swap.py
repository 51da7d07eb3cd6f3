"""A crash at every single operation of a swap: the start finds the old segments or the new one,
whole, and never a mixture."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from cleaner_tools import (
    all_records,
    cleaning,
    committed_records,
    compacted,
    end_transaction,
    pairs_of,
    put,
)
from storage_tools import NOW_MS, file_names, open_log

from ottla.broker.storage.cleaner.choice import assess
from ottla.broker.storage.log import Log
from ottla.runtime.os_disk import OsDisk

CONFIG = compacted(segment_bytes=400, file_delete_delay_ms=0)


class Crash(Exception):
    """The process is gone."""


class CountedDisk(OsDisk):
    """Dies before its n-th change of a name."""

    def __init__(self, operations: int) -> None:
        self.left = operations
        self.told: list[str] = []

    def _count(self, what: str) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1
        self.told.append(what)

    def rename(self, source: str, target: str) -> None:
        self._count(f"rename {source} {target}")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._count(f"remove {path}")
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self._count(f"sync {path}")
        super().sync_dir(path)


def fill(folder: Path) -> None:
    log = open_log(folder, CONFIG)
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"t", b"aborted")], transactional=True, **fields)
    end_transaction(log, 5, committed=False)
    for number in range(12):
        put(log, [(b"a", b"%d" % number), (b"k%d" % number, b"x" * 20)])
    log.roll()
    put(log, [(b"b", b"1")])
    log.close(clean=True)


def run(folder: Path, disk: CountedDisk) -> Log:
    log = open_log(folder, CONFIG, disk=disk)
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    for _ in cleaning(disk, chosen, NOW_MS):
        pass
    return log


def operations_of_a_whole_run(folder: Path) -> int:
    fill(folder)
    disk = CountedDisk(10_000)
    run(folder, disk)
    return len(disk.told)


def test_a_crash_at_any_change_of_a_name_leaves_one_or_the_other(tmp_path: Path) -> None:
    total = operations_of_a_whole_run(tmp_path / "whole" / "t-0")
    assert total > 30
    for operations in range(total):
        folder = tmp_path / str(operations) / "t-0"
        fill(folder)
        before = committed_records(open_log(folder, CONFIG))
        try:
            run(folder, CountedDisk(operations))
        except Crash:
            pass
        for clean in (False, True):
            log = open_log(folder, CONFIG, clean=clean)
            check(log, {record.offset: record for record in before})
            log.close(clean=True)


def check(log: Log, before: dict[int, object]) -> None:
    found = all_records(log)
    committed = committed_records(log)
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert all(before[record.offset] == record for record in committed)
    last = {key: value for _, key, value in pairs_of(committed)}
    assert last[b"a"] == b"11"
    assert last[b"b"] == b"1"
    assert b"t" not in last
    assert all(last[b"k%d" % number] == b"x" * 20 for number in range(12))
    assert log.end_offset == 27
    for segment, following in pairwise(log.segments):
        assert segment.next_offset() == following.base_offset
    leftovers = (".cleaned", ".swap")
    assert not [name for name in file_names(log.directory) if name.endswith(leftovers)]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_crash_while_a_swap_is_finished_at_start_is_as_harmless(
    tmp_path: Path, times: int
) -> None:
    total = operations_of_a_whole_run(tmp_path / "whole" / "t-0")
    for operations in range(0, total, 3):
        folder = tmp_path / str(operations) / "t-0"
        fill(folder)
        before = {record.offset: record for record in committed_records(open_log(folder, CONFIG))}
        try:
            run(folder, CountedDisk(operations))
        except Crash:
            pass
        for _ in range(times):
            try:
                open_log(folder, CONFIG, clean=False, disk=CountedDisk(times))
            except Crash:
                pass
        check(open_log(folder, CONFIG, clean=False), before)


def test_a_swap_found_at_start_takes_the_place_of_all_it_was_made_from(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    config = compacted(segment_bytes=4000)
    log = open_log(folder, config)
    for number in range(5):
        put(log, [(b"a", b"%d" % number)])
        log.roll()
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    steps = cleaning(log.disk, chosen, NOW_MS)
    while next(steps) != "prepared":
        pass
    names = file_names(folder)
    assert "00000000000000000000.log.swap" in names
    assert "00000000000000000004.log" in names
    again = open_log(folder, config, clean=False)
    assert [segment.base_offset for segment in again.segments] == [0, 5]
    assert pairs_of(all_records(again)) == [(4, b"a", b"4")]
