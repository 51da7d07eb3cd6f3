"""Compaction against a model: any sequence of writes, transactions, tombstones, rolls, cleanings,
truncations and crashes, on a simulated disk that forgets what was not synced.

What must hold at any time, for every reader and after every crash:

- a record that is there is the one that was written at its offset, in order;
- the last committed value of every key is there;
- a last tombstone is there until its time after the first cleaning that covered it, and never does
  an older record of its key come back;
- a reader of committed data sees no aborted record and no undecided one as committed;
- what has been cleaned holds each key at most once;
- the last batch of every producer is known after a restart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from cleaner_tools import (
    all_records,
    cleaning,
    committed_records,
    compacted,
    end_transaction,
    put,
    read_batches,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_tools import FixedClock

from ottla.broker.storage.cleaner.choice import assess
from ottla.broker.storage.cleaner.job import Finished, Memory
from ottla.broker.storage.dirs.checkpoints import CLEANER_OFFSETS, RECOVERY_POINTS, OffsetCheckpoint
from ottla.broker.storage.dirs.clean_shutdown import take_marker, write_marker
from ottla.broker.storage.log import Log
from ottla.broker.storage.replacement import ReplacementRefused
from ottla.records.codec import Codec
from ottla.records.record import Record
from ottla.sim.disk import Faults, Machinery, SimDisk
from ottla.sim.process import Process, SimulatedCrash
from ottla.sim.trace import Trace
from ottla.sim.volume import Volume

RETENTION_MS = 400
CONFIG = compacted(
    segment_bytes=900,
    index_interval_bytes=150,
    segment_index_bytes=512,
    delete_retention_ms=RETENTION_MS,
    file_delete_delay_ms=0,
)
PARTITION = ("t", 0)
# A run that a crash ends closes its files, and these belong to a dead process.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PRODUCERS = (1, 2)

Step = tuple[str, int, int]
NAMES = (
    *("put", "put", "put", "transact", "transact", "end", "end", "roll", "flush"),
    *("clean", "clean", "some", "wait", "doom", "close", "truncate"),
)
NUMBER_MAX = 1000
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, NUMBER_MAX), st.integers(0, NUMBER_MAX)),
    min_size=10,
    max_size=120,
)


class Written(NamedTuple):
    record: Record
    producer_id: int | None
    """Of its transaction."""


class Marker(NamedTuple):
    producer_id: int
    committed: bool


class Model:
    """The log as if it had never been compacted."""

    def __init__(self) -> None:
        self.entries: dict[int, Written | Marker] = {}
        self.covered_ms: dict[int, int] = {}
        """When a cleaning that could cover an offset first began, finished or not."""
        self.covered_again_ms: dict[int, int] = {}
        """When the latest one began."""

    def cut(self, end_offset: int) -> None:
        for offset in [offset for offset in self.entries if offset >= end_offset]:
            del self.entries[offset]
            self.covered_ms.pop(offset, None)
            self.covered_again_ms.pop(offset, None)

    def outcomes(self) -> dict[int, bool | None]:
        """By offset of a record: committed, aborted, or not decided."""
        found: dict[int, bool | None] = {}
        open_records: dict[int, list[int]] = {}
        for offset, entry in sorted(self.entries.items()):
            if isinstance(entry, Marker):
                for earlier in open_records.pop(entry.producer_id, []):
                    found[earlier] = entry.committed
            elif entry.producer_id is None:
                found[offset] = True
            else:
                found[offset] = None
                open_records.setdefault(entry.producer_id, []).append(offset)
        return found

    def last_of_keys(self, outcomes: dict[int, bool | None]) -> dict[bytes, int]:
        last: dict[bytes, int] = {}
        for offset, entry in sorted(self.entries.items()):
            if isinstance(entry, Written) and outcomes[offset] and entry.record.key is not None:
                last[entry.record.key] = offset
        return last

    def record(self, offset: int) -> Record:
        entry = self.entries[offset]
        assert isinstance(entry, Written)
        return entry.record

    def covered(self, end_offset: int, now_ms: int) -> None:
        for offset in self.entries:
            if offset < end_offset:
                self.covered_ms.setdefault(offset, now_ms)
                self.covered_again_ms[offset] = now_ms

    def may_be_gone(self, offset: int) -> bool:
        """A tombstone whose time was over when it was cleaned again."""
        if offset not in self.covered_ms:
            return False
        return self.covered_again_ms[offset] >= self.covered_ms[offset] + RETENTION_MS


@dataclass
class Story:
    seed: int
    model: Model = field(default_factory=Model)

    def __post_init__(self) -> None:
        self.clock = FixedClock()
        self.volume = Volume(random.Random(self.seed), self.clock.wall_ms)
        self.volume.make_dirs("/data")
        self.volume.settle()
        self.lives = 0
        self.run: Iterator[object] | None = None
        self.clean_offset = 0
        self.flushed_offset = 0
        self.committed_offset = 0
        """Cleaning has relied on everything below: the high watermark was at least here."""
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.unsure: dict[int, Written | Marker] = {}
        """What was being appended when a crash came."""
        self.power_is_lost = False
        self.start()

    # Lives

    def start(self) -> None:
        self.lives += 1
        self.process = Process("host", self.lives)
        machinery = Machinery(self.process, self.volume, Faults(), Trace(self.clock.now))
        self.disk = SimDisk(machinery, {})
        self.points = OffsetCheckpoint(self.disk, "/data", RECOVERY_POINTS)
        self.offsets = OffsetCheckpoint(self.disk, "/data", CLEANER_OFFSETS)
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(
            self.disk,
            "/data/t-0",
            "t",
            0,
            CONFIG,
            self.clock,
            clean=take_marker(self.disk, "/data"),
            recovery_point=self.points.read().get(PARTITION, 0),
            topic_id=b"x" * 16,
        )

    def restart(self) -> None:
        """After a crash; the crash may come again while it recovers."""
        while True:
            if self.power_is_lost:
                self.volume.power_loss()
            else:
                self.volume.process_killed()
            self.run = None
            try:
                self.start()
                self.log.settle()
                self.points.write({PARTITION: self.log.recovery_point})
                break
            except SimulatedCrash:
                continue
        self.model.entries |= self.unsure
        self.unsure = {}
        self.model.cut(self.log.end_offset)
        if self.power_is_lost:
            self.drop_holes()
        self.clean_offset = min(self.offsets.read().get(PARTITION, 0), self.log.end_offset)
        for producer_id, entry in self.log.producers.producers.items():
            if entry.batches:
                self.sequences[producer_id] = entry.batches[-1].last_sequence + 1
        self.check()
        self.check_producers()

    def drop_holes(self) -> None:
        """Power loss can take the end of one segment that was not flushed and leave the next: in a
        compacted topic a gap is no reason for recovery to drop what follows."""
        there = {
            offset
            for header, _ in read_batches(self.log)
            for offset in range(header.base_offset, header.next_offset)
        }
        lost = [at for at in self.model.entries if at >= self.flushed_offset and at not in there]
        for offset in lost:
            del self.model.entries[offset]

    # Steps

    def take(self, step: Step) -> None:
        name, first, second = step
        try:
            getattr(self, f"do_{name}")(first, second)
            self.flushed_offset = self.log.recovery_point
        except SimulatedCrash:
            self.restart()
        self.check()

    def do_put(self, first: int, second: int, producer_id: int | None = None) -> None:
        pairs = []
        for number in range(1 + second % 4):
            key = b"k%d" % ((first + number * 7) % 9)
            value = None if (first + number) % 5 == 0 else b"%d" % self.log.end_offset * 20
            pairs.append((key, value))
        base, now_ms = self.log.end_offset, self.clock.ms
        for number, (key, value) in enumerate(pairs):
            headers = (("h", b"%d" % number),)
            record = Record(base + number, now_ms + number, key, value, headers)
            self.unsure[base + number] = Written(record, producer_id)
        fields = {}
        if producer_id is not None:
            sequence = self.sequences[producer_id]
            fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        codec = Codec.ZSTD if second % 3 == 0 else Codec.NONE
        transactional = producer_id is not None
        put(self.log, pairs, now_ms=now_ms, codec=codec, transactional=transactional, **fields)
        if producer_id is not None:
            self.sequences[producer_id] += len(pairs)
        self.settle_unsure()

    def settle_unsure(self) -> None:
        self.model.entries |= self.unsure
        self.unsure = {}

    def do_transact(self, first: int, second: int) -> None:
        self.do_put(first, second, PRODUCERS[first % 2])

    def do_end(self, first: int, second: int) -> None:
        producer_id = PRODUCERS[first % 2]
        committed = second % 2 == 0
        self.unsure[self.log.end_offset] = Marker(producer_id, committed)
        end_transaction(self.log, producer_id, committed=committed, now_ms=self.clock.ms)
        self.settle_unsure()

    def do_roll(self, *_: int) -> None:
        self.log.roll()

    def do_flush(self, *_: int) -> None:
        self.log.flush()
        self.points.write({PARTITION: self.log.recovery_point})

    def do_wait(self, first: int, _: int) -> None:
        self.clock.ms += first
        self.log.deleted_files.remove_due(self.clock.ms)

    def do_doom(self, first: int, second: int) -> None:
        self.process.operations_until_crash = 1 + first % 60
        self.power_is_lost = second % 2 == 0

    def do_close(self, *_: int) -> None:
        self.run = None
        self.log.close(clean=True)
        self.points.write({PARTITION: self.log.recovery_point})
        write_marker(self.disk, "/data")
        self.log = self.open()
        self.check_producers()

    def do_truncate(self, first: int, _: int) -> None:
        """As a follower does: never what was committed, which is all that may be cleaned."""
        lowest = max(self.committed_offset, self.log.log_start_offset)
        if self.run is None and lowest < self.log.end_offset:
            offset = lowest + first % (self.log.end_offset - lowest)
            self.log.truncate_to(offset)
            self.log.sync_cuts()
            self.points.write({PARTITION: self.log.recovery_point})
            self.model.cut(self.log.end_offset)
            for producer_id in PRODUCERS:
                entry = self.log.producers.producers.get(producer_id)
                last = entry.batches[-1].last_sequence if entry and entry.batches else -1
                self.sequences[producer_id] = last + 1

    def do_clean(self, first: int, second: int) -> None:
        """A whole run, or the rest of one."""
        if self.run is None:
            self.begin_run(first, second)
        while self.run is not None:
            self.advance()

    def do_some(self, first: int, second: int) -> None:
        """A few steps of a run: others come in between."""
        if self.run is None:
            self.begin_run(first, second)
        for _ in range(1 + first % 5):
            if self.run is not None:
                self.advance()

    def begin_run(self, first: int, second: int) -> None:
        chosen = assess(self.log, self.clean_offset, self.log.end_offset, self.clock.ms)
        if chosen is not None:
            slots = 7 if second % 3 == 0 else 500
            memory = Memory(map_bytes=24 * slots, load_factor=0.9, block_bytes=256)
            self.model.covered(chosen.uncleanable_offset, self.clock.ms)
            self.committed_offset = self.log.end_offset
            self.run = cleaning(self.disk, chosen, self.clock.ms, memory)

    def advance(self) -> None:
        assert self.run is not None
        try:
            step = next(self.run)
        except ReplacementRefused:
            self.run = None
            return
        if isinstance(step, Finished):
            self.run = None
            self.clean_offset = step.end_offset
            self.offsets.write({PARTITION: step.end_offset})
            self.check_unique()

    # What must hold

    def check(self) -> None:
        model, found = self.model, all_records(self.log)
        outcomes = model.outcomes()
        assert [record.offset for record in found] == sorted({r.offset for r in found})
        for record in found:
            assert record == model.record(record.offset)
        visible = {record.offset for record in committed_records(self.log)}
        assert not [offset for offset in visible if outcomes[offset] is False]
        self.check_keys(outcomes, visible)

    def check_keys(self, outcomes: dict[int, bool | None], visible: set[int]) -> None:
        model = self.model
        for key, offset in model.last_of_keys(outcomes).items():
            if offset in visible:
                continue
            assert model.record(offset).value is None, f"lost the last value of {key!r}"
            assert model.may_be_gone(offset), f"tombstone of {key!r} went too early"
            older = [at for at in visible if at < offset and model.record(at).key == key]
            assert not [at for at in older if outcomes[at]], f"{key!r} came back to life"

    def check_unique(self) -> None:
        outcomes = self.model.outcomes()
        clean = [r for r in committed_records(self.log) if r.offset < self.clean_offset]
        keys = [record.key for record in clean if outcomes[record.offset]]
        assert len(keys) == len(set(keys))

    def check_producers(self) -> None:
        for producer_id in PRODUCERS:
            data = [
                offset
                for offset, entry in self.model.entries.items()
                if isinstance(entry, Written) and entry.producer_id == producer_id
            ]
            if data:
                entry = self.log.producers.producers[producer_id]
                assert entry.batches[-1].last_offset == max(data)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(STEPS, st.integers(0, 2**32))
def test_compaction_loses_nothing_and_brings_nothing_back(steps: list[Step], seed: int) -> None:
    live_through(steps, seed)


@pytest.mark.parametrize("seed", range(40))
def test_long_stories_end_well(seed: int) -> None:
    """Chance makes them long and busy; Hypothesis likes short ones."""
    chance = random.Random(seed)
    steps = [
        (chance.choice(NAMES), chance.randrange(NUMBER_MAX), chance.randrange(NUMBER_MAX))
        for _ in range(150)
    ]
    live_through(steps, seed)


def live_through(steps: list[Step], seed: int) -> None:
    story = Story(seed)
    for step in steps:
        story.take(step)
    story.process.operations_until_crash = None
    story.do_flush()
    story.do_roll()
    story.do_flush()
    story.do_clean(1, 1)
    story.check()
