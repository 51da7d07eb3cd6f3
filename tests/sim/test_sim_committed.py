"""How the simulation looks at the logs of nodes: past their disks, and without a trace."""

import pytest

from ottla.broker.storage.cleaner.choice import assess
from ottla.broker.storage.cleaner.compaction import compact as run_job
from ottla.broker.storage.cleaner.job import CleanedGroup, Memory
from ottla.broker.storage.cleaner.planning import cleaned_segment, plan_job
from ottla.broker.storage.errors import LogDirFailure
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.sim import SimRuntime, World
from ottla.sim.cluster.committed import CommittedLog
from ottla.sim.history import Violation

FOLDER = "/data/t-0"
FILE = f"{FOLDER}/00000000000000000000.log"


TABLE = TopicConfig(cleanup_policy=frozenset({"compact"}))


def booted(world: World, host: str, config: TopicConfig | None = None) -> tuple[SimRuntime, Log]:
    runtime = world.boot(host)
    runtime.disk.make_dirs(FOLDER)
    return runtime, Log.open(
        runtime.disk,
        FOLDER,
        "t",
        0,
        config or TopicConfig(),
        runtime.clock,
        clean=True,
        topic_id=b"x" * 16,
    )


def append(log: Log, *values: bytes, key: bytes | None = None) -> None:
    records = [Record(number, 0, key, value, ()) for number, value in enumerate(values)]
    batch = bytearray(build_batch(records))
    log.append(batch, read_header(batch), 0, 0)


def fail(world: World, host: str, log: Log) -> None:
    """Its node reads, hears of the failing disk and lets go of its files."""
    faults = world.machine(host).faults
    faults.fail("/data", "read")
    part = log.read(0, 1_000, log.end_offset)
    assert part is not None
    with pytest.raises((OSError, LogDirFailure)) as failed:
        part.read()
    log.fail(failed.value)
    faults.struck = False


def test_a_log_whose_disk_fails_is_looked_at_and_left_alone() -> None:
    world = World(0)
    _, log = booted(world, "a")
    append(log, b"one")
    append(log, b"two")
    fail(world, "a", log)
    events = world.trace.count
    committed = CommittedLog("t-0")
    committed.committed("a", log, 2)
    assert list(committed.batches) == [0, 1]
    assert log.segments[0].files.opened is None, "the look opened the file for the node"
    assert not world.machine("a").faults.struck, "the look counts as the node's bad luck"
    assert world.trace.count == events


def test_what_a_failing_disk_holds_is_held_against_what_others_have() -> None:
    world = World(0)
    _, log = booted(world, "a")
    append(log, b"one")
    _, other = booted(world, "b")
    append(other, b"another")
    fail(world, "a", log)
    committed = CommittedLog("t-0")
    committed.committed("b", other, 1)
    with pytest.raises(Violation, match=r"a has .* committed, others have"):
        committed.committed("a", log, 1)


def test_a_file_may_have_another_name_only_where_the_log_failed_meanwhile() -> None:
    world = World(0)
    runtime, log = booted(world, "a")
    append(log, b"one")
    runtime.disk.rename(FILE, f"{FILE}.swap")
    log.segments[0].files.release()
    with pytest.raises(AssertionError, match="a has no /data/t-0/0"):
        CommittedLog("t-0").committed("a", log, 1)
    log.fail(OSError("in the middle of a rename"))
    committed = CommittedLog("t-0")
    committed.committed("a", log, 1)
    assert committed.end == 1


def compact(runtime: SimRuntime, log: Log) -> None:
    """As the cleaner does it: other segments, with fewer records, take the place of the old."""
    chosen = assess(log, None, log.end_offset, 0)
    assert chosen is not None
    for step in run_job(runtime.disk, plan_job(chosen, Memory(2**20, 0.9, 2**16), 0)):
        if isinstance(step, CleanedGroup):
            cleaned = cleaned_segment(runtime.disk, log, step, 0)
            replaced = [one for one in log.segments if one.base_offset in step.replaced]
            replacement = log.replace_segments(cleaned, replaced, log.generation)
            replacement.prepare()
            replacement.install()
            replacement.retire()
            replacement.finish()


def test_replicas_agree_though_one_of_them_is_compacted() -> None:
    world = World(0)
    runtime, log = booted(world, "a", TABLE)
    _, other = booted(world, "b", TABLE)
    for one in (log, other):
        append(one, b"one", b"two", key=b"k")
        append(one, b"three", key=b"k")
        one.roll()
        append(one, b"four", key=b"k")
    committed = CommittedLog("t-0")
    committed.committed("a", log, 2)
    compact(runtime, log)
    assert log.segments[0].size < other.segments[0].size
    committed.committed("a", log, 4)
    committed.complete("b", other)
    assert sorted(committed.batches) == [0, 2, 3]
