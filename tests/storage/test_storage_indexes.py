"""The three indexes of a segment, against bytes laid out by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.segments.offset_index import OffsetIndex
from ottla.broker.storage.segments.time_index import TimeIndex
from ottla.broker.storage.segments.transaction_index import AbortedTransaction, TransactionIndex
from ottla.runtime.os_disk import OsDisk

DISK = OsDisk()


def offset_index(path: Path, base_offset: int = 100, max_bytes: int = 1024) -> OffsetIndex:
    index = OffsetIndex(DISK, str(path / "i.index"), base_offset, max_bytes)
    index.create()
    return index


def time_index(path: Path, base_offset: int = 100, max_bytes: int = 1024) -> TimeIndex:
    index = TimeIndex(DISK, str(path / "i.timeindex"), base_offset, max_bytes)
    index.create()
    return index


def test_offset_entries_are_relative_offset_and_position_in_big_endian(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(105, 4200)
    index.append(230, 9000)
    index.trim()
    assert (tmp_path / "i.index").read_bytes() == bytes.fromhex(
        "00000005 00001068 00000082 00002328"
    )


def test_an_active_index_is_preallocated_to_whole_entries_and_trimmed(tmp_path: Path) -> None:
    index = offset_index(tmp_path, max_bytes=1023)
    index.append(101, 50)
    assert (tmp_path / "i.index").stat().st_size == 1016
    index.trim()
    assert (tmp_path / "i.index").stat().st_size == 8


def test_offset_lookup_gives_the_last_entry_not_above(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    assert index.lookup(100) == (100, 0)
    for offset in range(110, 1000, 10):
        index.append(offset, offset * 7)
    assert index.lookup(100) == (100, 0)
    assert index.lookup(109) == (100, 0)
    assert index.lookup(110) == (110, 770)
    assert index.lookup(119) == (110, 770)
    assert index.lookup(995) == (990, 6930)
    assert index.lookup(10**12) == (990, 6930)


def test_an_offset_index_is_full_when_no_entry_fits(tmp_path: Path) -> None:
    index = offset_index(tmp_path, max_bytes=16)
    index.append(101, 10)
    assert not index.is_full
    index.append(102, 20)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(103, 30)


def test_an_offset_out_of_reach_of_int32_is_refused(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(100 + 2**31 - 1, 1)
    with pytest.raises(ValueError, match="out of reach"):
        index.append(100 + 2**31, 1)
    with pytest.raises(ValueError, match="out of reach"):
        index.append(99, 1)


@pytest.mark.parametrize(
    ("offset", "left"), [(100, 0), (110, 0), (111, 1), (120, 1), (125, 2), (130, 2), (131, 3)]
)
def test_truncation_drops_offset_entries_from_the_offset_on(
    tmp_path: Path, offset: int, left: int
) -> None:
    index = offset_index(tmp_path)
    for each in (110, 120, 130):
        index.append(each, each)
    index.truncate_to(offset)
    assert index.entries == left
    index.append(140, 140)
    assert index.lookup(200) == (140, 140)


def test_entries_cross_page_boundaries_and_survive_reopening(tmp_path: Path) -> None:
    index = offset_index(tmp_path, base_offset=0, max_bytes=64 * 1024)
    for number in range(1, 2000):
        index.append(number * 3, number * 100)
    index.trim()
    again = OffsetIndex(DISK, index.path, 0, 64 * 1024)
    assert again.entries == 1999
    assert again.lookup(3 * 1234 + 1) == (3 * 1234, 123400)
    again.append(10**6, 10**6)
    assert again.lookup(10**7) == (10**6, 10**6)
    assert again.entry(0) == (3, 100)


@pytest.mark.parametrize(
    "content",
    [
        b"1234567",
        struct.pack(">ii", -1, 100),
        struct.pack(">ii", 5, -100),
        struct.pack(">ii", 5, 1000),
        struct.pack(">ii", 5, 500) + bytes(8),
    ],
    ids=["odd size", "negative offset", "negative position", "past the log", "zeros at the end"],
)
def test_an_impossible_offset_index_is_found_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i.index").write_bytes(content)
    index = OffsetIndex(DISK, str(tmp_path / "i.index"), 100, 1024)
    with pytest.raises(CorruptFile):
        index.check(log_bytes=1000)


def test_time_entries_are_timestamp_and_relative_offset_in_big_endian(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    index.maybe_append(1_700_000_000_000, 105)
    index.maybe_append(1_700_000_000_001, 230)
    index.trim()
    assert (tmp_path / "i.timeindex").read_bytes() == bytes.fromhex(
        "0000018bcfe56800 00000005 0000018bcfe56801 00000082"
    )


def test_a_time_entry_that_says_nothing_new_is_left_out(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    index.maybe_append(1000, 105)
    index.maybe_append(1000, 110)
    index.maybe_append(999, 120)
    assert index.entries == 1
    assert index.last == (1000, 105)


def test_a_time_index_keeps_one_slot_for_the_roll(tmp_path: Path) -> None:
    index = time_index(tmp_path, max_bytes=36)
    index.maybe_append(1, 101)
    assert not index.is_full
    index.maybe_append(2, 102)
    assert index.is_full
    index.maybe_append(3, 103)
    assert index.entries == 3


def test_time_lookup_gives_the_last_entry_not_above(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    assert index.lookup(5) == (-1, 100)
    for step in range(1, 50):
        index.maybe_append(step * 10, 100 + step)
    assert index.lookup(9) == (-1, 100)
    assert index.lookup(10) == (10, 101)
    assert index.lookup(19) == (10, 101)
    assert index.lookup(10_000) == (490, 149)


@pytest.mark.parametrize(
    "content",
    [
        b"1234567",
        struct.pack(">qi", -5, 1),
        struct.pack(">qi", 5, -1),
        struct.pack(">qi", 5, 1) + bytes(12),
        bytes(24),
        struct.pack(">qiqi", 9, 1, 8, 2),
    ],
    ids=["odd size", "negative time", "negative offset", "zeros at the end", "zeros", "descends"],
)
def test_an_impossible_time_index_is_found_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i.timeindex").write_bytes(content)
    index = TimeIndex(DISK, str(tmp_path / "i.timeindex"), 100, 1024)
    with pytest.raises(CorruptFile):
        index.check()


def test_truncation_drops_time_entries_from_the_offset_on(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    for step in range(1, 5):
        index.maybe_append(step * 10, 100 + step * 10)
    index.truncate_to(130)
    assert index.entries == 2
    assert index.last == (20, 120)
    index.truncate_to(100)
    assert index.last == (-1, 100)


def test_a_transaction_entry_has_34_bytes(tmp_path: Path) -> None:
    path = tmp_path / "i.txnindex"
    index = TransactionIndex(DISK, str(path), 0, exists=False)
    assert not path.exists()
    index.append(AbortedTransaction(7, 10, 20, 21))
    assert path.read_bytes() == bytes.fromhex(
        "0000 0000000000000007 000000000000000a 0000000000000014 0000000000000015"
    )


def test_transactions_are_found_by_overlap_until_the_stable_offset_is_passed(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "i.txnindex")
    index = TransactionIndex(DISK, path, 0, exists=False)
    entries = [
        AbortedTransaction(1, 0, 10, 11),
        AbortedTransaction(2, 5, 20, 21),
        AbortedTransaction(3, 30, 40, 41),
    ]
    for entry in entries:
        index.append(entry)
    again = TransactionIndex(DISK, path, 0, exists=True)
    assert again.overlapping(0, 5) == ([entries[0]], True)
    assert again.overlapping(11, 25) == ([entries[1]], True)
    assert again.overlapping(0, 100) == (entries, False)
    again.truncate_to(20)
    assert TransactionIndex(DISK, path, 0, exists=True).all() == entries[:1]


def test_a_transaction_before_its_segment_is_found_out(tmp_path: Path) -> None:
    path = str(tmp_path / "i.txnindex")
    TransactionIndex(DISK, path, 0, exists=False).append(AbortedTransaction(1, 0, 10, 11))
    with pytest.raises(CorruptFile):
        TransactionIndex(DISK, path, 50, exists=True).check()
