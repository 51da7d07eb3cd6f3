"""How the simulation looks at the logs of nodes: past their disks, and without a trace."""

import pytest

from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.sim import SimRuntime, World
from ottla.sim.cluster.committed import CommittedLog
from ottla.sim.history import Violation
from ottla.storage.errors import LogDirFailure
from ottla.storage.log import Log

FOLDER = "/data/t-0"
FILE = f"{FOLDER}/00000000000000000000.log"


def booted(world: World, host: str) -> tuple[SimRuntime, Log]:
    runtime = world.boot(host)
    runtime.disk.make_dirs(FOLDER)
    return runtime, Log.open(
        runtime.disk, FOLDER, "t", 0, TopicConfig(), runtime.clock, clean=True, topic_id=b"x" * 16
    )


def append(log: Log, value: bytes) -> None:
    batch = bytearray(build_batch([Record(0, 0, None, value, ())]))
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
    assert log.segments[0]._file is None, "the look opened the file for the node"
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
    log.segments[0].release()
    with pytest.raises(AssertionError, match="a has no /data/t-0/0"):
        CommittedLog("t-0").committed("a", log, 1)
    log.fail(OSError("in the middle of a rename"))
    committed = CommittedLog("t-0")
    committed.committed("a", log, 1)
    assert committed.end == 1
