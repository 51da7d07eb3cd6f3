"""What compaction keeps and what it removes, one behaviour at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cleaner_tools import (
    all_records,
    clean,
    cleaning,
    committed_records,
    compacted,
    end_transaction,
    pairs_of,
    put,
    read_batches,
)
from storage_tools import NOW_MS, FixedClock, file_names, offset_for_timestamp, open_log

from ottla.broker.storage.cleaner.choice import assess
from ottla.broker.storage.cleaner.job import Memory
from ottla.broker.storage.errors import CorruptLog
from ottla.broker.storage.log import Log
from ottla.broker.storage.log_reading import aborted_transactions
from ottla.broker.storage.replacement import ReplacementRefused
from ottla.records.codec import Codec

DAY_MS = 86_400_000


def test_only_the_last_record_of_each_key_is_left(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    put(log, [(b"b", b"2"), (b"c", b"1")])
    log.roll()
    finished = clean(log)
    assert finished is not None
    assert finished.end_offset == 5
    assert pairs_of(all_records(log)) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert log.end_offset == 5


def test_records_keep_their_timestamps_headers_and_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None)])
    before = {record.offset: record for record in all_records(log)}
    log.roll()
    clean(log)
    after = all_records(log)
    assert [record.offset for record in after] == [1, 2, 3]
    assert after == [before[record.offset] for record in after]
    (header, _), *_ = read_batches(log)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (0, 3, NOW_MS + 3)


def test_the_active_segment_is_never_touched(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"a", b"2")])
    assert clean(log) is None
    log.roll()
    put(log, [(b"a", b"3"), (b"a", b"4")])
    clean(log)
    assert pairs_of(all_records(log)) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_an_untouched_batch_is_copied_byte_for_byte(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"x", b"1")])
    put(log, [(b"a", b"1"), (b"b", b"1")], codec=Codec.LZ4)
    put(log, [(b"x", b"2")])
    before = read_batches(log)
    log.roll()
    clean(log)
    assert read_batches(log) == before[1:]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_its_codec_and_its_range(
    tmp_path: Path, codec: Codec
) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", b"2")], codec=codec)
    put(log, [(b"b", b"3")])
    log.roll()
    clean(log)
    (header, _), _ = read_batches(log)
    assert header.codec is codec
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 1)
    assert pairs_of(all_records(log)) == [(2, b"a", b"2"), (4, b"b", b"3")]


def test_records_without_a_key_are_removed_and_counted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(None, b"1"), (b"a", b"1")])
    log.roll()
    finished = clean(log)
    assert finished is not None
    assert finished.stats.records_without_key == 1
    assert pairs_of(all_records(log)) == [(1, b"a", b"1")]


def test_a_tombstone_removes_its_key_at_once_and_itself_after_its_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=DAY_MS))
    put(log, [(b"a", b"1"), (b"a", None), (b"b", b"1")])
    log.roll()
    finished = clean(log)
    assert finished is not None
    assert pairs_of(all_records(log)) == [(1, b"a", None), (2, b"b", b"1")]
    (header, _) = read_batches(log)[0]
    assert header.delete_horizon_ms == NOW_MS + DAY_MS
    assert [r.timestamp for r in all_records(log)] == [NOW_MS + 1, NOW_MS + 2]

    put(log, [(b"c", b"1")])
    log.roll()
    again = clean(log, finished.end_offset, now_ms=NOW_MS + DAY_MS - 1)
    assert again is not None
    assert (1, b"a", None) in pairs_of(all_records(log))
    put(log, [(b"c", b"2")])
    log.roll()
    clean(log, again.end_offset, now_ms=NOW_MS + DAY_MS)
    assert pairs_of(all_records(log)) == [(2, b"b", b"1"), (4, b"c", b"2")]


def test_the_horizon_of_a_tombstone_is_set_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=DAY_MS))
    put(log, [(b"a", None)])
    log.roll()
    for later_ms in (0, 1000, 2000):
        put(log, [(b"b", b"%d" % later_ms)])
        log.roll()
        clean(log, now_ms=NOW_MS + later_ms)
        assert read_batches(log)[0][0].delete_horizon_ms == NOW_MS + DAY_MS


def test_an_endless_retention_of_tombstones_is_no_overflow(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=2**63 - 1))
    put(log, [(b"a", None)])
    log.roll()
    clean(log)
    (record,) = all_records(log)
    assert (record.value, record.timestamp) == (None, NOW_MS)


def test_segments_are_joined_up_to_the_size_of_one(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(segment_bytes=1000))
    for number in range(20):
        put(log, [(b"k%d" % (number % 3), bytes(100))])
    log.roll()
    assert len(log.segments) == 5
    finished = clean(log)  # They were full: each becomes smaller, none disappears.
    assert finished is not None
    assert len(log.segments) == 5
    put(log, [(b"k9", b"")])
    log.roll()
    clean(log, finished.end_offset)
    assert len(log.segments) == 2
    assert [key for _, key, _ in pairs_of(all_records(log))] == [b"k2", b"k0", b"k1", b"k9"]


def test_each_new_segment_ends_where_the_old_ones_did(tmp_path: Path) -> None:
    """So that a start after a crash knows what it replaces, and sees no hole in the offsets."""
    log = open_log(tmp_path / "t-0", compacted(segment_bytes=300))
    for number in range(12):
        put(log, [(b"k", b"%d" % number * 100)])
    log.roll()
    clean(log)
    segments = log.segments
    for segment, following in pairwise(segments):
        assert segment.next_offset() == following.base_offset
    assert [value for _, _, value in pairs_of(all_records(log))] == [b"11" * 100]


def test_a_full_map_ends_the_clean_part_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    for number in range(60):
        put(log, [(b"k%d" % number, b"1"), (b"last", b"%d" % number)])
    log.roll()
    memory = Memory(map_bytes=24 * 32, load_factor=0.9, block_bytes=1 << 12)
    ends, end_offset = [], 0
    while end_offset < log.segments.active.base_offset:
        finished = clean(log, end_offset, memory=memory)
        assert finished is not None
        assert finished.end_offset > end_offset
        end_offset = finished.end_offset
        ends.append(end_offset)
        lasts = [value for _, key, value in pairs_of(all_records(log)) if key == b"last"]
        assert lasts[-1] == b"59"
    assert len(ends) > 2
    keys = [key for _, key, _ in pairs_of(all_records(log))]
    assert sorted(keys) == sorted({*keys})
    assert len(keys) == 61


def test_a_map_that_fills_up_inside_a_batch_makes_progress(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"k%d" % number, b"1") for number in range(50)])
    put(log, [(b"k%d" % number, b"2") for number in range(50)])
    log.roll()
    memory = Memory(map_bytes=24 * 20, load_factor=0.9, block_bytes=1 << 12)
    end_offset = 0
    while end_offset < log.segments.active.base_offset:
        finished = clean(log, end_offset, memory=memory)
        assert finished is not None
        assert finished.end_offset > end_offset
        end_offset = finished.end_offset
    expected = [(50 + number, b"k%d" % number, b"2") for number in range(50)]
    assert pairs_of(all_records(log)) == expected


def test_a_segment_without_anything_to_remove_stays_the_same_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(segment_bytes=1000))
    put(log, [(b"a", bytes(800))])
    log.roll()
    put(log, [(b"b", bytes(800))])
    log.roll()
    segments = list(log.segments)
    clean(log)
    assert list(log.segments) == segments
    assert not any(name.endswith((".cleaned", ".swap")) for name in file_names(log.directory))


def test_a_reader_in_the_middle_of_an_old_file_is_undisturbed(tmp_path: Path) -> None:
    clock = FixedClock()
    log = open_log(tmp_path / "t-0", compacted(file_delete_delay_ms=60_000), clock=clock)
    for number in range(5):
        put(log, [(b"a", b"%d" % number * 100)])
    log.roll()
    part = log.read(0, 1 << 20, log.end_offset)
    assert part is not None
    before = part.read()
    clean(log)
    assert part.read() == before
    clock.ms += 60_000
    assert log.deleted_files.remove_due(clock.ms) > 0
    assert part.read() == before
    assert not any(name.endswith(".deleted") for name in file_names(log.directory))


def test_indexes_of_a_compacted_segment_find_offsets_and_times(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(index_interval_bytes=100))
    for number in range(200):
        put(log, [(b"k%d" % (number % 50), bytes(50))], now_ms=NOW_MS + number * 10)
    log.roll()
    clean(log)
    assert log.segments[0].offset_index.entries > 5
    assert [r.offset for r in all_records(log)] == list(range(150, 200))
    for offset in (0, 149, 150, 163, 199):
        part = log.read(offset, 1, log.end_offset)
        assert part is not None
        assert pairs_of(all_records(log))[max(0, offset - 150)][0] == max(offset, 150)
    assert offset_for_timestamp(log, NOW_MS + 1700) == (NOW_MS + 1700, 170, 0)


# Producers and transactions


def test_the_last_batch_of_a_producer_stays_without_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1")], producer_id=7, producer_epoch=2, base_sequence=0)
    put(log, [(b"a", b"2"), (b"a", b"3")], producer_id=7, producer_epoch=2, base_sequence=1)
    put(log, [(b"a", b"4")])
    put(log, [(b"a", b"5")])
    log.roll()
    clean(log)
    (kept, _), (last, _) = read_batches(log)
    assert (kept.producer_id, kept.record_count) == (7, 0)
    assert (kept.base_offset, kept.last_offset, kept.last_sequence) == (1, 2, 2)
    assert last.base_offset == 4
    log.close(clean=False)
    again = open_log(tmp_path / "t-0", compacted(), clean=False)
    entry = again.producers.producers[7]
    assert (entry.producer_epoch, entry.batches[-1].last_sequence) == (2, 2)
    assert entry.batches[-1].last_offset == 2


def test_an_expired_producer_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1")], producer_id=7, producer_epoch=2, base_sequence=0)
    put(log, [(b"a", b"2")])
    log.roll()
    log.producers.expire(NOW_MS + DAY_MS, 1)
    clean(log)
    assert [header.base_offset for header, _ in read_batches(log)] == [1]


def transaction(log: Log, producer_id: int, value: bytes, *, committed: bool) -> None:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"a", value), (b"b", value)], transactional=True, **fields)
    end_transaction(log, producer_id, committed=committed)


def test_aborted_records_go_and_do_not_count_as_the_last_of_their_key(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    transaction(log, 1, b"good", committed=True)
    transaction(log, 2, b"bad", committed=False)
    put(log, [(b"c", b"1")])
    log.roll()
    log.producers.first_unstable_offset(log.end_offset)
    finished = clean(log)
    assert finished is not None
    expected = [(0, b"a", b"good"), (1, b"b", b"good"), (6, b"c", b"1")]
    assert pairs_of(committed_records(log)) == expected
    assert pairs_of(all_records(log)) == expected


def test_a_marker_goes_after_its_records_and_its_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=DAY_MS))
    transaction(log, 1, b"old", committed=True)
    put(log, [(b"a", b"new"), (b"b", b"new")])
    log.producers.expire(NOW_MS + DAY_MS, 1)
    now_ms, end_offset = NOW_MS, 0
    markers = []
    for _ in range(4):
        put(log, [(b"c", b"%d" % now_ms)], now_ms=now_ms)
        log.roll()
        finished = clean(log, end_offset, now_ms=now_ms)
        assert finished is not None
        end_offset = finished.end_offset
        markers.append(
            [header.delete_horizon_ms for header, _ in read_batches(log) if header.is_control]
        )
        now_ms += DAY_MS
    # With its records; found alone and given a horizon; gone.
    assert markers == [[None], [NOW_MS + 2 * DAY_MS], [], []]


def test_the_abort_marker_and_its_index_entry_stay_as_long_as_a_batch_of_it(
    tmp_path: Path,
) -> None:
    """The producer's last batch stays, empty: so does all that belongs to it."""
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=0))
    transaction(log, 2, b"bad", committed=False)
    end_offset = 0
    for number in range(3):
        put(log, [(b"c", b"%d" % number)])
        log.roll()
        finished = clean(log, end_offset)
        assert finished is not None
        end_offset = finished.end_offset
        assert [h.record_count for h, _ in read_batches(log)] == [0, 1, 1]
        (entry,) = aborted_transactions(log.segments, 0, log.end_offset)
        assert (entry.first_offset, entry.last_offset) == (0, 2)
    log.close(clean=True)
    again = open_log(tmp_path / "t-0", compacted())
    assert aborted_transactions(again.segments, 0, again.end_offset) == [entry]


def test_the_marker_with_a_producers_last_epoch_stays_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(delete_retention_ms=0))
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"a", b"1")], transactional=True, **fields)
    end_transaction(log, 1, committed=True, producer_epoch=5)  # Fenced: a new epoch, no data of it.
    end_offset = 0
    for number in range(4):
        put(log, [(b"a", b"%d" % number)])
        log.roll()
        finished = clean(log, end_offset)
        assert finished is not None
        end_offset = finished.end_offset
    markers = [h for h, _ in read_batches(log) if h.is_control]
    assert [(h.producer_epoch, h.record_count) for h in markers] == [(5, 1)]
    log.close(clean=False)
    again = open_log(tmp_path / "t-0", compacted(), clean=False)
    assert again.producers.producers[1].producer_epoch == 5


def test_an_open_transaction_holds_compaction_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"a", b"2")])
    log.roll()
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"a", b"3")], transactional=True, **fields)
    log.roll()
    put(log, [(b"a", b"4")])
    log.roll()
    finished = clean(log)
    assert finished is not None
    assert finished.end_offset == 2
    assert [offset for offset, _, _ in pairs_of(all_records(log))] == [1, 2, 3]


def test_a_marker_far_behind_its_records_still_counts(tmp_path: Path) -> None:
    """The transaction index that names it belongs to the active segment."""
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"good")])
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"a", b"bad")], transactional=True, **fields)
    log.roll()
    end_transaction(log, 1, committed=False)
    finished = clean(log)
    assert finished is not None
    assert finished.end_offset == 2
    assert pairs_of(all_records(log)) == [(0, b"a", b"good")]
    assert pairs_of(committed_records(log)) == [(0, b"a", b"good")]


# What may get in between


@pytest.mark.parametrize("stage", ["begun", "prepared"])
def test_a_truncation_takes_back_a_swap_that_nobody_has_seen(tmp_path: Path, stage: str) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1")])
    put(log, [(b"a", b"2")])
    log.roll()
    put(log, [(b"b", b"1")])
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    run = cleaning(log.disk, chosen, NOW_MS)
    while next(run) != stage:
        pass
    log.truncate_to(1)
    assert not any(name.endswith((".swap", ".cleaned")) for name in file_names(log.directory))
    with pytest.raises(ReplacementRefused):
        list(run)
    assert pairs_of(all_records(log)) == [(0, b"a", b"1")]


@pytest.mark.parametrize("stage", ["installed", "retired"])
def test_a_truncation_finishes_a_swap_that_readers_have_seen(tmp_path: Path, stage: str) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1"), (b"b", b"1")])
    put(log, [(b"a", b"2")])
    log.roll()
    put(log, [(b"b", b"2")])
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    run = cleaning(log.disk, chosen, NOW_MS)
    while next(run) != stage:
        pass
    log.truncate_to(2)
    list(run)
    assert pairs_of(all_records(log)) == [(1, b"b", b"1")]
    live = [name for name in file_names(log.directory) if not name.endswith(".deleted")]
    assert not any(name.endswith((".swap", ".cleaned")) for name in live)
    log.close(clean=True)
    assert pairs_of(all_records(open_log(tmp_path / "t-0", compacted()))) == [(1, b"b", b"1")]


def test_a_truncation_before_the_swap_makes_it_impossible(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1")])
    log.roll()
    put(log, [(b"a", b"2")])
    log.roll()
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    run = cleaning(log.disk, chosen, NOW_MS)
    next(run)
    log.truncate_to(1)  # The younger record, for which the older one was left out, is gone.
    put(log, [(b"b", b"1")])
    with pytest.raises(ReplacementRefused):
        list(run)
    assert pairs_of(all_records(log)) == [(0, b"a", b"1"), (1, b"b", b"1")]


def test_appends_and_rolls_go_on_while_a_log_is_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(segment_bytes=500))
    for number in range(10):
        put(log, [(b"a", b"%d" % number * 100)])
    log.roll()
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    for number, _ in enumerate(cleaning(log.disk, chosen, NOW_MS)):
        put(log, [(b"b%d" % number, bytes(200))])
        assert pairs_of(all_records(log))[-1][1] == b"b%d" % number
    found = pairs_of(all_records(log))
    assert found[0] == (9, b"a", b"9" * 100)
    assert [offset for offset, _, _ in found] == list(range(9, log.end_offset))


def test_retention_waits_for_a_swap(tmp_path: Path) -> None:
    policy = frozenset({"compact", "delete"})
    config = replace(compacted(retention_ms=1000), cleanup_policy=policy)
    log = open_log(tmp_path / "t-0", config)
    put(log, [(b"a", b"1")])
    put(log, [(b"a", b"2")])
    log.roll()
    put(log, [(b"a", b"3")], now_ms=NOW_MS + 5000)
    log.flush()
    chosen = assess(log, None, log.end_offset, NOW_MS)
    assert chosen is not None
    run = cleaning(log.disk, chosen, NOW_MS)
    while next(run) != "prepared":
        pass
    assert log.delete_old_segments(NOW_MS + 5000, log.end_offset) == 0
    list(run)
    assert log.delete_old_segments(NOW_MS + 5000, log.end_offset) == 1
    assert pairs_of(all_records(log)) == [(2, b"a", b"3")]


def test_a_damaged_batch_is_not_copied_under_a_new_checksum(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted())
    put(log, [(b"a", b"1" * 100), (b"b", b"1")])
    put(log, [(b"a", b"2")])
    log.roll()
    log.flush()
    path = log.segments[0].files.path
    data = bytearray(Path(path).read_bytes())
    data[120] ^= 0xFF
    Path(path).write_bytes(data)
    with pytest.raises(CorruptLog, match="checksum"):
        clean(log)
    assert len(log.segments) == 2
