"""Which log is compacted, and up to where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cleaner_tools import compacted, end_transaction, put
from storage_tools import NOW_MS, open_log

from ottla.broker.storage.cleaner.choice import CleanableLog, assess, first_dirty_offset
from ottla.broker.storage.log import Log

HOUR_MS = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Segments from 0, 10, 20 and an active one from 30; ten minutes apart."""
    made = open_log(tmp_path / "t-0", compacted())
    for number in range(3):
        for _ in range(10):
            put(made, [(b"a", bytes(50))], now_ms=NOW_MS + number * 600_000)
        made.roll()
    put(made, [(b"a", bytes(50))], now_ms=NOW_MS + 1_800_000)
    return made


def found(
    log: Log, checkpoint: int | None = None, mark: int = 31, now_ms: int = NOW_MS
) -> CleanableLog:
    cleanable = assess(log, checkpoint, mark, now_ms)
    assert cleanable is not None
    return cleanable


def test_all_but_the_active_segment_can_be_cleaned(log: Log) -> None:
    cleanable = found(log)
    assert (cleanable.first_dirty_offset, cleanable.uncleanable_offset) == (0, 30)
    assert cleanable.dirty_ratio == 1.0
    assert cleanable.is_due


def test_the_clean_part_counts_against_the_ratio(log: Log) -> None:
    cleanable = found(log, 20)
    assert cleanable.dirty_ratio == pytest.approx(1 / 3)
    assert not cleanable.is_due
    log.update_config(replace(log.config, min_cleanable_dirty_ratio=0.3))
    assert found(log, 20).is_due


def test_nothing_is_left_to_do_in_a_clean_log(log: Log) -> None:
    assert assess(log, 30, 31, NOW_MS) is None
    assert assess(log, 31, 31, NOW_MS) is None


def test_only_whole_segments_below_the_high_watermark_are_cleaned(log: Log) -> None:
    assert found(log, mark=25).uncleanable_offset == 20
    assert found(log, mark=20).uncleanable_offset == 20
    assert found(log, mark=19).uncleanable_offset == 10
    assert assess(log, None, 9, NOW_MS) is None


def test_an_open_transaction_is_a_limit(log: Log) -> None:
    log.roll()
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, [(b"a", b"1")], transactional=True, **fields)
    put(log, [(b"a", b"2")])
    log.roll()
    put(log, [(b"a", b"3")])
    log.roll()
    assert found(log, mark=34).uncleanable_offset == 31
    end_transaction(log, 1, committed=True)
    assert found(log, mark=34).uncleanable_offset == 31, "its end is not committed yet"
    assert found(log, mark=35).uncleanable_offset == 34


def test_young_records_wait_for_their_lag(log: Log) -> None:
    log.update_config(replace(log.config, min_compaction_lag_ms=HOUR_MS))
    assert assess(log, None, 31, NOW_MS + HOUR_MS - 1) is None
    assert found(log, now_ms=NOW_MS + HOUR_MS).uncleanable_offset == 10
    assert found(log, now_ms=NOW_MS + HOUR_MS + 600_000).uncleanable_offset == 20


def test_old_records_are_cleaned_whatever_the_ratio(log: Log) -> None:
    config = replace(log.config, max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1.0)
    log.update_config(config)
    assert not found(log, 20, now_ms=NOW_MS + 1_200_000 + HOUR_MS).is_due
    overdue = found(log, 20, now_ms=NOW_MS + 1_200_000 + HOUR_MS + 5)
    assert overdue.is_due
    assert overdue.delay_ms == 5


def test_a_checkpoint_that_does_not_fit_the_log_is_not_believed(log: Log) -> None:
    assert first_dirty_offset(log, None) == 0
    assert first_dirty_offset(log, 12) == 12
    assert first_dirty_offset(log, 32) == 0
    log.increment_log_start_offset(15)
    assert first_dirty_offset(log, 12) == 15
    assert found(log, 12).clean_bytes == log.segments[0].size
