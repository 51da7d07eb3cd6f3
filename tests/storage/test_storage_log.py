"""What a log does while nothing goes wrong."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
from storage_tools import (
    NOW_MS,
    TOPIC_ID,
    FaultyDisk,
    FixedClock,
    append,
    file_names,
    make_batch,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_log,
    read_all,
    values_of,
)

from ottla.broker.storage.dirs import log_folders
from ottla.broker.storage.errors import LogFailed, OffsetOutOfRange, UnexpectedOffset
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.header import read_header, set_place

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def fill(log, count: int, *, size: int = 100, **options) -> None:
    for number in range(count):
        append(log, b"%05d" % number + b"." * (size - 5), **options)


def test_a_new_log_is_empty_and_has_kafkas_files(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", topic_id=TOPIC_ID)
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, 100, 0) is None
    assert file_names(tmp_path / "t-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]


def test_appended_batches_get_the_next_offsets_and_the_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert append(log, b"a", b"b", b"c", epoch=4) == (0, 2, 0)
    assert append(log, b"d", epoch=4) == (3, 3, 0)
    assert log.end_offset == 4
    data = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    first = read_header(data)
    second = read_header(data, first.size)
    assert (first.base_offset, first.last_offset, first.partition_leader_epoch) == (0, 2, 4)
    assert (second.base_offset, second.last_offset, second.partition_leader_epoch) == (3, 3, 4)
    assert log.epochs.entries == [(4, 0)]
    assert values_of(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_a_read_only_buffer_is_appended_without_being_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"first")
    batch = make_batch([b"second"])
    copy = bytes(batch)
    log.append(memoryview(batch), read_header(batch), 7, NOW_MS)
    assert batch == copy
    assert values_of(log) == [(0, b"first"), (1, b"second")]
    assert log.epochs.entries == [(0, 0), (7, 1)]


def test_reads_begin_at_the_batch_with_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    part = log.read(1, 10_000, log.end_offset)
    assert part is not None
    assert read_header(part.read()).base_offset == 0
    assert part.reaches_limit


def test_the_first_batch_comes_whole_only_if_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x" * 500)
    append(log, b"y" * 500)
    one = log.read(0, 1, 2)
    assert one is not None
    assert len(one) == read_header(one.read()).size
    assert not one.reaches_limit
    assert log.read(0, 1, 2, min_one=False) is None
    cut = log.read(0, len(one) + 10, 2)
    assert cut is not None
    assert len(cut) == len(one) + 10


def test_reads_stop_at_the_batch_of_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    fill(log, 40)
    for limit in range(1, 41):
        for offset in range(limit):
            part = log.read(offset, 1 << 20, limit)
            assert part is not None
            data, last = part.read(), -1
            position = 0
            while position < len(data):
                header = read_header(data, position)
                last = header.last_offset
                position += header.size
            assert position == len(data)
            assert last < limit
            assert part.reaches_limit == (last == limit - 1)
    assert log.read(5, 100, 5) is None
    assert log.read(40, 100, 40) is None


def test_a_limit_inside_a_batch_leaves_the_batch_out(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    part = log.read(0, 1000, 2)
    assert part is not None
    assert read_header(part.read()).size == len(part)


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_offsets_outside_are_out_of_range(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a", b"b", b"c")
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 100, 3)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_at_the_tail_needs_no_read_from_the_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    fill(log, 500)
    disk.fail("read")
    for offset in range(440, 500):
        part = log.read(offset, 200, 500)
        assert part is not None
        assert part.offset == offset * len(log.read(499, 200, 500) or ())


def test_segments_roll_by_size_and_stay_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    fill(log, 50)
    assert len(log.segments) == 10
    assert all(segment.size <= 1000 for segment in log.segments)
    assert [offset for offset, _ in values_of(log)] == list(range(50))
    assert [offset for offset, _ in values_of(log, offset=23)] == list(range(23, 50))
    names = file_names(tmp_path / "t-0")
    assert "00000000000000000005.log" in names
    assert "00000000000000000005.snapshot" in names


def test_rolled_indexes_are_cut_to_their_entries(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=4096)
    log = open_log(tmp_path / "t-0", config)
    fill(log, 6, timestamp=NOW_MS)
    first = tmp_path / "t-0" / "00000000000000000000.index"
    size = log.segments[0].size // 5
    # The first batch gets no entry: nothing lies between it and the beginning.
    expected = b"".join(
        offset.to_bytes(4, "big") + (offset * size).to_bytes(4, "big") for offset in range(1, 5)
    )
    assert first.read_bytes() == expected
    times = tmp_path / "t-0" / "00000000000000000000.timeindex"
    assert times.read_bytes() == NOW_MS.to_bytes(8, "big") + bytes(4)
    active = tmp_path / "t-0" / "00000000000000000005.index"
    assert active.stat().st_size == 0


def test_segments_roll_by_the_age_of_their_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(segment_ms=1000))
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert len(log.segments) == 2
    append(log, b"d", timestamp=NOW_MS)
    assert len(log.segments) == 2


def test_segments_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    clock = FixedClock()
    log = open_log(tmp_path / "t-0", TopicConfig(segment_ms=1000), clock=clock)
    append(log, b"a", timestamp=-1)
    append(log, b"b", timestamp=-1, now_ms=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=-1, now_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


def test_jitter_makes_a_roll_earlier(tmp_path: Path) -> None:
    config = TopicConfig(segment_ms=1_000_000, segment_jitter_ms=1_000_000)
    log = open_log(tmp_path / "t-0", config)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 999_999)
    assert len(log.segments) == 2


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    config = TopicConfig(index_interval_bytes=0, segment_index_bytes=24)
    log = open_log(tmp_path / "t-0", config)
    for number in range(10):
        append(log, b"x", timestamp=NOW_MS + number)
    assert len(log.segments) > 2
    assert [offset for offset, _ in values_of(log)] == list(range(10))


def test_segments_roll_before_relative_offsets_overflow(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    far = 2**31 + 5
    log.append_at(make_batch([b"b"], base_offset=far), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert values_of(log) == [(0, b"a"), (far, b"b")]
    assert log.end_offset == far + 1


def test_an_empty_segment_gives_way_to_one_that_reaches_far_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    far = 2**33
    log.append_at(make_batch([b"b"], base_offset=far), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [far]
    assert values_of(log, offset=0) == [(far, b"b")]


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    with pytest.raises(KafkaError) as caught:
        append(log, b"x" * 2000)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    append(log, b"fits")
    assert values_of(log) == [(0, b"fits")]


def test_followers_append_many_batches_with_their_own_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    data = b"".join(
        make_batch([b"x" * 80], base_offset=offset, partition_leader_epoch=offset // 10)
        for offset in range(0, 40, 2)
    )
    appended = log.append_at(data + data[:30], NOW_MS)
    assert appended == (0, 38, 0)
    assert [offset for offset, _ in values_of(log)] == list(range(0, 40, 2))
    assert len(log.segments) > 1
    assert log.epochs.entries == [(0, 0), (1, 9), (2, 19), (3, 29)], "from the gaps on"
    with pytest.raises(UnexpectedOffset):
        log.append_at(make_batch([b"x"], base_offset=38), NOW_MS)
    assert log.append_at(b"", NOW_MS) is None


def test_a_read_at_a_gap_finds_what_comes_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for offset in (0, 10, 20, 30, 50):
        log.append_at(make_batch([b"x" * 400], base_offset=offset), NOW_MS)
    assert len(log.segments) > 1
    for offset in range(51):
        expected = next(each for each in (0, 10, 20, 30, 50) if each >= offset)
        part = log.read(offset, 1, 51)
        assert part is not None
        assert read_header(part.read()).base_offset == expected


def test_records_are_found_by_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(60):
        append(log, b"a" * 30, b"b" * 30, timestamp=NOW_MS + number * 10, epoch=number // 20)
    assert len(log.segments) > 3
    for number in range(60):
        at = NOW_MS + number * 10
        assert offset_for_timestamp(log, at) == (at, number * 2, number // 20)
        assert offset_for_timestamp(log, at + 1) == (at + 1, number * 2 + 1, number // 20)
        if number < 59:
            assert offset_for_timestamp(log, at + 2) == (
                at + 10,
                number * 2 + 2,
                (number + 1) // 20,
            )
    assert offset_for_timestamp(log, 0) == (NOW_MS, 0, 0)
    assert offset_for_timestamp(log, NOW_MS + 592) is None
    log.increment_log_start_offset(31)
    assert offset_for_timestamp(log, 0) == (NOW_MS + 151, 31, 0)


def test_timestamps_out_of_order_are_still_found_first(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in (5, 1, 9, 2, 3, 8, 12, 0):
        append(log, b"." * 150, timestamp=NOW_MS + number * 100)
    for target, offset in [(0, 0), (5, 0), (6, 2), (9, 2), (10, 6), (12, 6)]:
        found = offset_for_timestamp(log, NOW_MS + target * 100)
        assert found is not None
        assert found[1] == offset
    assert offset_of_max_timestamp(log) == (NOW_MS + 1200, 6, 0)


def test_the_youngest_record_is_found_inside_its_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    assert offset_of_max_timestamp(log) is None
    append(log, b"a", b"b", b"c", timestamp=NOW_MS)
    append(log, b"d", timestamp=NOW_MS - 1)
    assert offset_of_max_timestamp(log) == (NOW_MS + 2, 2, 0)
    log.close(clean=True)
    assert offset_of_max_timestamp(open_log(tmp_path / "t-0", SMALL)) == (NOW_MS + 2, 2, 0)


def test_retention_by_time_looks_at_the_youngest_record_of_a_segment(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1000, retention_ms=1000, file_delete_delay_ms=500)
    clock = FixedClock()
    log = open_log(tmp_path / "t-0", config, clock=clock)
    for number in range(20):
        append(log, b"." * 100, timestamp=NOW_MS + number * 100)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    assert log.delete_old_segments(NOW_MS + 1400, 20) == 0
    assert log.delete_old_segments(NOW_MS + 1401, 20) == 1
    assert (log.log_start_offset, len(log.segments)) == (5, 3)
    names = file_names(tmp_path / "t-0")
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.index.deleted" in names
    assert "00000000000000000000.log" not in names
    assert log.deleted_files.remove_due(NOW_MS + 499) == 0
    assert log.deleted_files.remove_due(NOW_MS + 500) == 3
    assert not [name for name in file_names(tmp_path / "t-0") if "deleted" in name]
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 100, 20)


def test_when_all_segments_expire_the_active_one_is_rolled_first(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(retention_ms=1000))
    append(log, b"a", b"b")
    assert log.delete_old_segments(NOW_MS + 10_000, 2) == 1
    assert (log.log_start_offset, log.end_offset, len(log.segments)) == (2, 2, 1)
    assert append(log, b"c").base_offset == 2
    assert values_of(log) == [(2, b"c")]


def test_an_empty_active_segment_is_never_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(retention_ms=0, retention_bytes=0))
    assert log.delete_old_segments(NOW_MS * 2, 0) == 0
    assert not log.deleted_files


def test_retention_never_passes_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(segment_bytes=1000, retention_ms=0))
    fill(log, 20)
    assert log.delete_old_segments(NOW_MS + 10_000, 9) == 1
    assert log.log_start_offset == 5
    assert log.delete_old_segments(NOW_MS + 10_000, 19) == 2
    assert log.log_start_offset == 15


def test_retention_by_size_keeps_at_least_that_much(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(segment_bytes=1000, retention_ms=-1))
    fill(log, 20)
    segment_size = log.segments[0].size
    log.update_config(
        TopicConfig(segment_bytes=1000, retention_ms=-1, retention_bytes=segment_size * 2 + 1)
    )
    assert log.delete_old_segments(NOW_MS, 20) == 1
    assert log.size_bytes == segment_size * 3
    log.update_config(TopicConfig(retention_ms=-1, retention_bytes=segment_size * 2))
    assert log.delete_old_segments(NOW_MS, 20) == 1
    assert log.size_bytes == segment_size * 2


def test_compacted_topics_lose_only_what_was_deleted_on_request(tmp_path: Path) -> None:
    config = TopicConfig(
        segment_bytes=1000, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"})
    )
    log = open_log(tmp_path / "t-0", config)
    fill(log, 20)
    assert log.delete_old_segments(NOW_MS * 2, 20) == 0
    log.increment_log_start_offset(12)
    assert log.delete_old_segments(NOW_MS * 2, 20) == 2
    assert log.segments[0].base_offset == 10
    assert log.log_start_offset == 12


def test_deleted_records_cannot_be_read(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a", b"b", b"c")
    assert log.increment_log_start_offset(2)
    assert not log.increment_log_start_offset(1)
    assert values_of(log) == [(2, b"c")]
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100, 3)
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start_offset(4)


def test_a_slice_can_be_read_after_its_segment_was_deleted(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1000, retention_ms=0, file_delete_delay_ms=0)
    log = open_log(tmp_path / "t-0", config)
    fill(log, 20)
    part = log.read(0, 10_000, 20)
    assert part is not None
    before = part.read()
    log.delete_old_segments(NOW_MS * 2, 20)
    log.deleted_files.remove_due(NOW_MS * 2)
    assert part.read() == before


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 7, 12, 19])
def test_truncation_removes_from_the_offset_on(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(20):
        append(log, b"%05d" % number + b"." * 95, epoch=number // 6, timestamp=NOW_MS + number)
    assert log.truncate_to(offset)
    assert log.end_offset == offset
    assert [each for each, _ in values_of(log)] == list(range(offset))
    assert log.epochs.entries == [(e, e * 6) for e in range(4) if e * 6 < offset]
    assert append(log, b"new", epoch=9).base_offset == offset
    assert values_of(log)[-1] == (offset, b"new")
    found = offset_of_max_timestamp(log)
    assert found is not None
    assert found[1] == max(offset - 1, 0)
    again = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert values_of(again) == values_of(log)


def test_truncation_inside_a_batch_removes_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    assert log.truncate_to(2)
    assert log.end_offset == 1
    assert values_of(log) == [(0, b"a")]


def test_truncation_past_the_end_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    assert not log.truncate_to(1)
    assert not log.truncate_to(100)
    assert log.end_offset == 1


def test_a_log_can_start_over_at_any_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    fill(log, 20)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.end_offset, len(log.segments)) == (1000, 1000, 1)
    assert append(log, b"x").base_offset == 1000
    log.close(clean=True)
    again = open_log(tmp_path / "t-0", SMALL)
    assert values_of(again) == [(1000, b"x")]


def test_truncating_before_the_first_segment_starts_over_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    log.truncate_fully_and_start_at(1000)
    append(log, b"x")
    assert log.truncate_to(500)
    assert (log.log_start_offset, log.end_offset) == (500, 500)


def test_a_flush_moves_the_recovery_point_and_syncs_names_of_new_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", SMALL, disk=disk, topic_id=TOPIC_ID)
    fill(log, 3)
    assert (log.recovery_point, log.unflushed_messages) == (0, 3)
    log.flush()
    assert (log.recovery_point, log.unflushed_messages) == (3, 0)
    folder = str(tmp_path / "t-0")
    assert f"{folder}/00000000000000000000.log" in disk.synced
    assert {folder, str(tmp_path), f"{folder}/partition.metadata"} <= set(disk.synced)
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    disk.synced.clear()
    fill(log, 1)
    log.flush()
    assert disk.synced == [f"{folder}/00000000000000000000.log"]
    disk.synced.clear()
    log.flush()
    assert disk.synced == []
    fill(log, 5)
    log.flush()
    assert {
        f"{folder}/00000000000000000000.log",
        f"{folder}/00000000000000000000.index",
        f"{folder}/00000000000000000005.snapshot",
        f"{folder}/00000000000000000005.log",
        folder,
    } <= set(disk.synced)


def test_a_flush_up_to_an_offset_leaves_later_segments_alone(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", SMALL, disk=disk)
    fill(log, 12)
    disk.synced.clear()
    log.flush(5)
    assert log.recovery_point == 5
    assert not [path for path in disk.synced if path.endswith("05.log")]


def test_a_flush_that_began_before_a_truncation_is_not_believed(tmp_path: Path) -> None:
    class Interrupting(FaultyDisk):
        def sync_dir(self, path: str) -> None:
            log.truncate_to(2)
            super().sync_dir(path)

    log = open_log(tmp_path / "t-0", disk=Interrupting())
    fill(log, 10)
    log.flush()
    assert log.end_offset == 2
    assert log.recovery_point <= 2


def test_names_are_synced_later_if_a_truncation_hides_the_failure_of_a_flush(
    tmp_path: Path,
) -> None:
    class FailsOnce(FaultyDisk):
        fails = False

        def sync_dir(self, path: str) -> None:
            if self.fails:
                self.fails = False
                log.truncate_to(log.end_offset - 1)
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            super().sync_dir(path)
            self.synced.append(path)

    disk = FailsOnce()
    folder = tmp_path / "t-0"
    log = open_log(folder, SMALL, disk=disk)
    fill(log, 12)
    log.flush()
    log.truncate_to(5)  # removes whole segments
    fill(log, 12)
    disk.fails = True
    log.flush()
    disk.synced.clear()
    log.sync_cuts()
    assert str(folder) in disk.synced
    disk.synced.clear()
    log.flush()
    assert str(folder) in disk.synced  # the names of new segments


def test_many_flushes_at_once_are_one(tmp_path: Path) -> None:
    class Slow(FaultyDisk):
        def sync_dir(self, path: str) -> None:
            time.sleep(0.02)
            super().sync_dir(path)

    disk = Slow()
    log = open_log(tmp_path / "t-0", SMALL, disk=disk)
    fill(log, 12)
    points: list[int] = []

    def flush() -> None:
        log.flush()
        points.append(log.recovery_point)

    threads = [threading.Thread(target=flush) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert points == [12] * 8
    assert disk.synced.count(str(tmp_path / "t-0")) == 1


def test_flushes_are_due_by_count_and_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", TopicConfig(flush_messages=3, flush_ms=1000))
    assert not log.flush_due(NOW_MS + 10_000)
    append(log, b"a", b"b")
    assert not log.flush_due(NOW_MS + 999)
    assert log.flush_due(NOW_MS + 1000)
    append(log, b"c")
    assert log.flush_due(NOW_MS)
    log.flush()
    assert not log.flush_due(NOW_MS + 10_000)


def test_a_roll_is_told_so_that_the_old_segment_can_be_flushed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    told: list[int] = []
    log.on_roll = lambda rolled: told.append(rolled.segments.active.base_offset)
    fill(log, 12)
    assert told == [5, 10]
    log.roll()
    assert told == [5, 10, 12]
    log.roll()
    assert told == [5, 10, 12]


def test_a_closed_log_refuses_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    log.close(clean=True)
    with pytest.raises(LogFailed):
        append(log, b"b")
    with pytest.raises(LogFailed):
        log.read(0, 100, 1)


def test_everything_is_there_after_a_clean_close(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL, topic_id=TOPIC_ID)
    for number in range(20):
        append(log, b"%05d" % number + b"." * 95, epoch=number // 6, timestamp=NOW_MS + number)
    expected = read_all(log)
    log.close(clean=True)
    again = open_log(tmp_path / "t-0", SMALL)
    assert read_all(again) == expected
    assert (again.end_offset, again.recovery_point, again.topic_id) == (20, 20, TOPIC_ID)
    assert again.epochs.entries == [(0, 0), (1, 6), (2, 12), (3, 18)]
    assert append(again, b"more").base_offset == 20


def test_a_preallocated_segment_is_cut_to_its_data(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1000, preallocate=True)
    log = open_log(tmp_path / "t-0", config)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    assert path.stat().st_size == 1000
    fill(log, 6)
    assert path.stat().st_size == log.segments[0].size < 1000
    log.close(clean=True)
    assert values_of(open_log(tmp_path / "t-0", config)) != []


def test_a_deleted_log_leaves_its_name_free_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    path = log_folders.delete(log, "ab" * 16)
    assert path == str(tmp_path / f"t-0.{'ab' * 16}-delete")
    assert not (tmp_path / "t-0").exists()
    with pytest.raises(LogFailed):
        append(log, b"b")
    assert values_of(open_log(tmp_path / "t-0")) == []


def test_a_folder_of_another_topic_id_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path / "t-0", topic_id=TOPIC_ID)
    with pytest.raises(KafkaError) as caught:
        open_log(tmp_path / "t-0", topic_id=bytes(16).replace(b"\0", b"x"))
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_where_an_epoch_ended(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a", b"b", epoch=1)
    append(log, b"c", epoch=3)
    assert log.epoch_end_offset(1) == (1, 2)
    assert log.epoch_end_offset(2) == (1, 2)
    assert log.epoch_end_offset(3) == (3, 3)
    assert log.epoch_end_offset(9) == (-1, -1)
    log.assign_epoch(7)
    assert log.latest_epoch == 7
    assert log.epoch_end_offset(3) == (3, 3)


COMPACTED = TopicConfig(cleanup_policy=frozenset({"compact"}))


def batch_of(epoch: int, base_offset: int) -> bytearray:
    batch = bytearray(make_batch([b"x"], base_offset=base_offset))
    set_place(batch, read_header(batch).batch_length, base_offset, epoch)
    return batch


@pytest.mark.parametrize(
    "how", ["running", "crashed", "crashed without epochs", "closed without epochs"]
)
def test_an_epoch_begins_with_the_gap_that_compaction_left_before_it(
    tmp_path: Path, how: str
) -> None:
    """A copy of a compacted log cannot know where in the gap the epoch began. A follower that has
    records of an older epoch in the gap must drop them: they may be nobody else's."""
    log = open_log(tmp_path / "t-0", COMPACTED)
    log.append_at(batch_of(1, 10), NOW_MS)
    log.append_at(batch_of(4, 99), NOW_MS)
    if how != "running":
        if how.startswith("closed"):
            log.close(clean=True)
        if how.endswith("without epochs"):
            (tmp_path / "t-0" / "leader-epoch-checkpoint").unlink(missing_ok=True)
        clean = how.startswith("closed")
        log = open_log(tmp_path / "t-0", COMPACTED, clean=clean)
    assert log.epoch_end_offset(0) == (0, 0)
    assert log.epoch_end_offset(1) == (1, 11)
    assert log.epoch_end_offset(2) == (1, 11)
    assert log.epoch_end_offset(4) == (4, 100)


def test_an_epoch_whose_begin_was_seen_keeps_it_over_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    log.append_at(batch_of(1, 10), NOW_MS)
    log.assign_epoch(2)
    log.append_at(batch_of(2, 99), NOW_MS)
    log.flush()
    log = open_log(tmp_path / "t-0", COMPACTED, clean=False)
    assert log.epochs.entries == [(1, 0), (2, 11)]
