"""Producer state: followed while appending, snapshotted, rebuilt."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from storage_tools import NOW_MS, append, file_names, open_log

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_reading import aborted_transactions
from ottla.broker.storage.producers.snapshot import decode_snapshot
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def produce(log: Log, producer_id: int, sequence: int, *values: bytes, **fields: Any) -> int:
    fields.setdefault("producer_epoch", 0)
    values = values or (b"." * 100,)
    return append(
        log, *values, producer_id=producer_id, base_sequence=sequence, **fields
    ).base_offset


def end_transaction(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
    record = Record(0, NOW_MS, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 17), ())
    batch = bytearray(
        build_batch(
            [record],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=True,
            control=True,
        )
    )
    return log.append(batch, read_header(batch), 0, NOW_MS).base_offset


def state_of(log: Log) -> dict[int, tuple[Any, ...]]:
    return {
        entry.producer_id: tuple(entry.to_snapshot()) for entry in log.producers.producers.values()
    }


def test_the_last_five_batches_of_a_producer_are_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for number in range(7):
        produce(log, 9, number * 2, b"a", b"b")
    entry = log.producers.producers[9]
    assert [batch.last_sequence for batch in entry.batches] == [5, 7, 9, 11, 13]
    found = entry.find_batch(0, 8, 9)
    assert found is not None
    assert (found.first_offset, found.last_offset) == (8, 9)
    assert entry.find_batch(0, 2, 3) is None
    assert entry.find_batch(1, 8, 9) is None


def test_a_new_epoch_forgets_the_batches_of_the_old(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    produce(log, 9, 0)
    produce(log, 9, 0, producer_epoch=1)
    entry = log.producers.producers[9]
    assert (entry.producer_epoch, len(entry.batches)) == (1, 1)


def test_sequences_wrap_after_the_greatest_int(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    produce(log, 9, 2**31 - 1, b"a", b"b", b"c")
    batch = log.producers.producers[9].batches[-1]
    assert (batch.first_sequence, batch.last_sequence) == (2**31 - 1, 1)


def test_producers_without_id_leave_no_trace(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    assert log.producers.producers == {}
    assert log.producers.end_offset == 1


def test_each_roll_leaves_a_snapshot_at_the_new_base_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(12):
        produce(log, number % 3, number)
    snapshots = [name for name in file_names(tmp_path / "t-0") if name.endswith(".snapshot")]
    bases = [segment.base_offset for segment in log.segments]
    assert snapshots == [f"{base:020d}.snapshot" for base in bases[1:]]
    data = (tmp_path / "t-0" / snapshots[0]).read_bytes()
    assert {entry.producer_id for entry in decode_snapshot("x", data)} == {0, 1, 2}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["none", "all snapshots gone", "last snapshot damaged"])
def test_the_state_is_the_same_after_a_restart(tmp_path: Path, clean: bool, damage: str) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(30):
        produce(log, number % 4, number)
    produce(log, 50, 0, transactional=True)
    end_transaction(log, 50, commit=True)
    produce(log, 51, 0, transactional=True)
    expected = state_of(log)
    ongoing = dict(log.producers.ongoing)
    assert ongoing == {32: 51}
    if clean:
        log.close(clean=True)
    snapshots = sorted((tmp_path / "t-0").glob("*.snapshot"))
    if damage == "all snapshots gone":
        for snapshot in snapshots:
            snapshot.unlink()
        clean = False
    elif damage == "last snapshot damaged":
        snapshots[-1].write_bytes(snapshots[-1].read_bytes()[:-1])
    again = open_log(tmp_path / "t-0", SMALL, clean=clean)
    assert state_of(again) == expected
    assert again.producers.ongoing == ongoing
    assert again.producers.end_offset == 33


def test_recovery_from_a_point_uses_the_snapshot_below_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(30):
        produce(log, number % 4, number)
    expected = state_of(log)
    again = open_log(tmp_path / "t-0", SMALL, clean=False, recovery_point=28)
    assert state_of(again) == expected


def test_truncation_takes_the_producers_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(20):
        produce(log, 1, number)
    for number in range(5):
        produce(log, 2, number)
    log.truncate_to(18)
    assert list(log.producers.producers) == [1]
    assert log.producers.producers[1].batches[-1].last_sequence == 17
    assert max(log.producers.snapshots) <= 18


def test_aborted_transactions_are_indexed_with_the_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    first = produce(log, 1, 0, b"a", transactional=True)
    other = produce(log, 2, 0, b"b", transactional=True)
    assert log.producers.first_unstable_offset(log.end_offset) == first
    marker = end_transaction(log, 1, commit=False)
    assert log.producers.first_unstable_offset(marker) == first
    assert log.producers.first_unstable_offset(log.end_offset) == other
    committed = end_transaction(log, 2, commit=True)
    assert log.producers.first_unstable_offset(log.end_offset) is None
    expected = [AbortedTransaction(1, first, marker, other)]
    assert aborted_transactions(log.segments, 0, committed) == expected
    assert aborted_transactions(log.segments, marker + 1, 100) == []
    again = open_log(tmp_path / "t-0", clean=False)
    assert aborted_transactions(again.segments, 0, 100) == expected
    assert again.producers.producers[1].coordinator_epoch == 17


def test_markers_without_a_transaction_change_nothing_for_readers(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    end_transaction(log, 1, commit=False, epoch=3)
    assert log.producers.first_unstable_offset(0) is None
    assert aborted_transactions(log.segments, 0, 10) == []
    assert log.producers.producers[1].producer_epoch == 3


def test_idle_producers_expire_unless_a_transaction_is_open(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    produce(log, 1, 0)
    produce(log, 2, 0, transactional=True)
    produce(log, 3, 0, timestamp=NOW_MS + 5000)
    log.producers.expire(NOW_MS + 5000, 5000)
    assert sorted(log.producers.producers) == [2, 3]


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(segment_bytes=1000, retention_ms=0))
    for number in range(20):
        produce(log, 1, number)
    log.delete_old_segments(NOW_MS * 2, log.end_offset)
    log.deleted_files.remove_due(NOW_MS * 2)
    kept = [segment.base_offset for segment in log.segments]
    assert log.producers.snapshots == kept
    assert [name for name in file_names(tmp_path / "t-0") if "snapshot" in name] == [
        f"{base:020d}.snapshot" for base in kept
    ]
