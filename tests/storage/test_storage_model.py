"""A log against the simplest thing that behaves like one: a list of batches."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from storage_tools import (
    NOW_MS,
    FixedClock,
    append,
    make_batch,
    offset_for_timestamp,
    open_log,
    read_all,
)

from ottla.config.topic import TopicConfig
from ottla.records.header import batches, read_header

CONFIG = TopicConfig(
    segment_bytes=700,
    index_interval_bytes=120,
    segment_index_bytes=256,
    retention_ms=1000,
    file_delete_delay_ms=10,
    # Followers get gaps from compacted topics only.
    cleanup_policy=frozenset({"compact", "delete"}),
)


@dataclass
class ModelBatch:
    base_offset: int
    values: list[bytes]
    timestamp: int
    epoch: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = FixedClock()
        self.log = open_log(self.folder / "t-0", CONFIG, clock=self.clock)
        self.batches: list[ModelBatch] = []
        self.start = self.end = self.flushed = 0
        self.epoch = 0
        self.high_watermark = 0
        self.clock_ms = NOW_MS

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.folder)

    def records(self) -> list[tuple[int, int, bytes]]:
        return [
            (batch.base_offset + index, batch.timestamp + index, value)
            for batch in self.batches
            for index, value in enumerate(batch.values)
            if batch.base_offset + index >= self.start
        ]

    @rule(
        values=st.lists(st.binary(max_size=120), min_size=1, max_size=3),
        age=st.integers(-300, 300),
        new_epoch=st.booleans(),
    )
    def append(self, values: list[bytes], age: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        timestamp = self.clock_ms + age
        appended = append(
            self.log, *values, epoch=self.epoch, timestamp=timestamp, now_ms=self.clock_ms
        )
        assert appended.base_offset == self.end
        self.batches.append(ModelBatch(self.end, values, timestamp, self.epoch))
        self.end += len(values)
        assert appended.last_offset == self.end - 1

    @rule(gaps=st.lists(st.integers(0, 5), min_size=1, max_size=4))
    def append_as_follower(self, gaps: list[int]) -> None:
        data = b""
        for gap in gaps:
            base = self.end + gap
            values = [b"f%d" % base, b"g" * 60]
            data += make_batch(
                values,
                base_offset=base,
                timestamp=self.clock_ms,
                partition_leader_epoch=self.epoch,
            )
            self.batches.append(ModelBatch(base, values, self.clock_ms, self.epoch))
            self.end = base + 2
        self.log.append_at(data, self.clock_ms)

    @rule(time_ms=st.integers(1, 800))
    def wait(self, time_ms: int) -> None:
        self.clock_ms += time_ms
        self.clock.ms = self.clock_ms

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(data=st.data(), max_bytes=st.integers(1, 2000), min_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.integers(self.start, self.end))
        part = self.log.read(offset, max_bytes, limit, min_one=min_one)
        readable = [
            batch
            for batch in self.batches
            if batch.next_offset > offset and batch.next_offset <= limit
        ]
        if part is None:
            assert not readable or not min_one or offset >= limit
            return
        content = part.read()
        found = list(batches(content))
        if not found:
            raise AssertionError("a slice without a whole batch")
        assert [header.base_offset for header, _ in found] == [
            batch.base_offset for batch in readable[: len(found)]
        ]
        assert len(content) <= max(max_bytes, found[0][0].size)
        if part.reaches_limit:
            assert len(found) == len(readable)

    @rule(data=st.data())
    def find_by_time(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(NOW_MS - 500, self.clock_ms + 500))
        expected = next((r for r in self.records() if r[1] >= target), None)
        found = offset_for_timestamp(self.log, target)
        assert (None if found is None else found[:2]) == (
            None if expected is None else (expected[1], expected[0])
        )

    @rule(data=st.data())
    def advance_high_watermark(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))

    @rule()
    def apply_retention(self) -> None:
        before = self.log.segments[0].base_offset
        self.log.delete_old_segments(self.clock_ms, self.high_watermark)
        start = self.log.log_start_offset
        assert self.start <= start <= max(self.high_watermark, self.start)
        if self.log.segments[0].base_offset == before:
            return
        first = self.log.segments[0].base_offset
        gone = [b for b in self.batches if b.base_offset < first]
        for batch in gone:
            youngest = batch.timestamp + len(batch.values) - 1
            assert self.clock_ms - youngest > 1000 or batch.next_offset <= self.start
        self.batches = [b for b in self.batches if b.base_offset >= first]
        self.start = start
        self.log.deleted_files.remove_due(self.clock_ms)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.high_watermark = max(self.high_watermark, offset)
        self.log.increment_log_start_offset(offset)
        self.start = offset

    @precondition(lambda self: bool(self.batches))
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        boundaries = [b.base_offset for b in self.batches if b.base_offset >= self.start]
        if not boundaries:
            return
        offset = data.draw(st.sampled_from(boundaries))
        assert self.log.truncate_to(offset)
        self.batches = [b for b in self.batches if b.base_offset < offset]
        self.end = offset
        self.flushed = min(self.flushed, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epoch = max((b.epoch for b in self.batches), default=0)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        # A killed process closes nothing, and the page cache survives it.
        self.log.close(clean=clean)
        self.log = open_log(
            self.folder / "t-0",
            CONFIG,
            clean=clean,
            clock=self.clock,
            recovery_point=self.flushed,
            log_start_offset=self.start,
        )
        last = max((b.next_offset for b in self.batches), default=self.start)
        # Past the last batch there is only a gap, which an empty segment may remember.
        assert max(last, self.start) <= self.log.end_offset <= self.end
        self.end = self.log.end_offset
        self.high_watermark = min(self.high_watermark, self.end)
        self.flushed = self.log.recovery_point
        if not self.batches or self.batches[-1].next_offset <= self.start:
            self.start = self.log.log_start_offset

    @invariant()
    def ends_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.recovery_point <= self.end

    @invariant()
    def records_agree(self) -> None:
        found = [(r.offset, r.timestamp, r.value) for r in read_all(self.log)]
        assert found == self.records()

    @invariant()
    def epochs_agree(self) -> None:
        for batch in self.batches:
            if batch.next_offset > self.start:
                at = max(batch.base_offset, self.start)
                assert self.log.epochs.epoch_of_offset(at) == batch.epoch


LogMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, print_blob=True
)
TestLogAgainstModel = LogMachine.TestCase


def test_a_placed_header_reads_back(tmp_path: Path) -> None:
    """The model compares records; the header fields that the log sets are checked here."""
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log, b"a", epoch=3)
    part = log.read(0, 100, 1)
    assert part is not None
    assert read_header(part.read()).partition_leader_epoch == 3
