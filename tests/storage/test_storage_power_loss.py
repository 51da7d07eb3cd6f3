"""A log on a simulated disk that forgets what was not synced, crashed at any operation.

What must hold: everything below a recovery point that `flush` reached is there, unchanged; what
follows it is a beginning of what was appended; and the log works. After the death of the process
alone, everything that was appended is there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from storage_tools import NOW_MS, FixedClock, append, read_all

from ottla.broker.storage.dirs.checkpoints import RECOVERY_POINTS, OffsetCheckpoint
from ottla.broker.storage.dirs.clean_shutdown import take_marker, write_marker
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.sim.disk import Faults, Machinery, SimDisk
from ottla.sim.process import Process, SimulatedCrash
from ottla.sim.trace import Trace
from ottla.sim.volume import Volume

CONFIG = TopicConfig(
    segment_bytes=1500,
    index_interval_bytes=200,
    segment_index_bytes=512,
    retention_ms=-1,
    file_delete_delay_ms=0,
)
PARTITION = ("t", 0)


@dataclass
class Story:
    """One machine through several lives."""

    seed: int
    config: TopicConfig = CONFIG
    chance: random.Random = field(init=False)
    values: list[bytes] = field(default_factory=list)
    """What was appended and not known to be lost, by offset."""
    acknowledged: int = 0
    """Below this, a flush promised to keep everything."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.clock = FixedClock()
        self.volume = Volume(random.Random(self.seed + 1), self.clock.wall_ms)
        self.volume.make_dirs("/data")
        self.volume.settle()
        self.lives = 0
        self.may_be_shorter = False
        """Since the last look at what is left."""

    def disk(self) -> SimDisk:
        self.lives += 1
        process = Process("host", self.lives)
        machinery = Machinery(process, self.volume, Faults(), Trace(self.clock.now))
        process.operations_until_crash = self.chance.randint(20, 150)
        return SimDisk(machinery, {})

    def live(self) -> None:
        """Open, work and crash, or close cleanly."""
        disk = self.disk()
        try:
            self._open_and_work(disk)
        except SimulatedCrash:
            pass
        if self.chance.random() < 0.7:
            self.volume.power_loss()
            self.may_be_shorter = True
        else:
            self.volume.process_killed()

    def _open_and_work(self, disk: SimDisk) -> None:
        points = OffsetCheckpoint(disk, "/data", RECOVERY_POINTS)
        log = self.open(disk, points)
        while True:
            match self.chance.randrange(12):
                case 0:
                    log.flush()
                    self.acknowledged = max(self.acknowledged, log.recovery_point)
                case 1:
                    points.write({PARTITION: log.recovery_point})
                case 2:
                    log.roll()
                case 3 if self.chance.random() < 0.2:
                    log.close(clean=True)
                    self.acknowledged = log.end_offset
                    points.write({PARTITION: log.recovery_point})
                    write_marker(disk, "/data")
                    log = self.open(disk, points)
                case 4 if log.end_offset and self.chance.random() < 0.4:
                    self._truncate(log, points)
                case _:
                    self._append(log)

    def _truncate(self, log: Log, points: OffsetCheckpoint) -> None:
        """As a follower does; the manager of logs syncs the cut and the checkpoint after it."""
        offset = self.chance.randrange(log.end_offset)
        self.acknowledged = min(self.acknowledged, offset)
        self.may_be_shorter = True
        log.truncate_to(offset)
        log.sync_cuts()
        points.write({PARTITION: log.recovery_point})
        del self.values[offset:]
        self.may_be_shorter = False

    def _append(self, log: Log) -> None:
        value = b"%06d" % len(self.values) + b"." * self.chance.randrange(300)
        producer_id = self.chance.randrange(-1, 3)
        sequence = len(self.values) if producer_id >= 0 else -1
        # Promised only after the call, but it may be there from now on.
        self.values.append(value)
        append(
            log,
            value,
            epoch=self.lives,
            timestamp=NOW_MS + len(self.values),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )

    def open(self, disk: SimDisk, points: OffsetCheckpoint) -> Log:
        clean = take_marker(disk, "/data")
        log = Log.open(
            disk,
            "/data/t-0",
            "t",
            0,
            self.config,
            self.clock,
            clean=clean,
            recovery_point=points.read().get(PARTITION, 0),
            topic_id=b"x" * 16,
        )
        self.check(log)
        log.settle()
        # As the manager of logs does: the point may have been above the end.
        points.write({PARTITION: log.recovery_point})
        return log

    def check(self, log: Log) -> None:
        assert log.end_offset >= self.acknowledged
        assert log.log_start_offset == 0
        if not self.may_be_shorter:
            # Only the process died, perhaps in the middle of its last append.
            assert log.end_offset >= len(self.values) - 1
        found = [record.value for record in read_all(log)]
        assert found == self.values[: log.end_offset]
        for offset in range(0, log.end_offset, 7):
            part = log.read(offset, 1, log.end_offset)
            assert part is not None
            assert self.values[offset] in part.read()
        expected: dict[int, int] = {}
        for record, header in _batches(log):
            if header[9] >= 0:
                expected[header[9]] = record
        assert {
            pid: entry.batches[-1].last_offset for pid, entry in log.producers.producers.items()
        } == expected
        assert log.epochs.entries == _epochs(log)
        del self.values[log.end_offset :]
        self.acknowledged = min(self.acknowledged, log.end_offset)
        self.may_be_shorter = False


def _batches(log: Log) -> list[tuple[int, tuple[int, ...]]]:
    from ottla.broker.storage.segments.batch_scan import scan

    return [
        (header[0], header)
        for segment in log.segments
        for _, header in scan(segment.files.file, 0, segment.size)
    ]


def _epochs(log: Log) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for offset, header in _batches(log):
        if not entries or entries[-1][0] != header[2]:
            entries.append((header[2], offset))
    return entries


FOUND_SOMETHING_ONCE = (387, 791, 921, 1122, 4123)


@pytest.mark.parametrize("seed", [*range(150), *FOUND_SOMETHING_ONCE])
def test_what_was_flushed_survives_any_crash(seed: int) -> None:
    live_through(Story(seed))


@pytest.mark.parametrize("seed", range(60))
def test_no_hole_is_left_in_a_log_that_may_be_compacted(seed: int) -> None:
    """By the offsets alone nobody could tell it from what compaction took."""
    live_through(Story(seed, replace(CONFIG, cleanup_policy=frozenset({"compact"}))))


def live_through(story: Story) -> None:
    for _ in range(6):
        story.live()
    assert story.lives == 6
