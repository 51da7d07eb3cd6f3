"""What is left of a log whose machine loses power: all up to some batch, and nothing after it."""

import pytest

from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import batches, read_header
from ottla.records.record import Record
from ottla.sim import SimRuntime, World
from ottla.storage.log import Log

FOLDER = "/data/t-0"
SEEDS = range(40)


def opened(runtime: SimRuntime, policy: str) -> Log:
    config = TopicConfig(
        segment_bytes=300, segment_index_bytes=4096, cleanup_policy=frozenset({policy})
    )
    return Log.open(
        runtime.disk, FOLDER, "t", 0, config, runtime.clock, clean=False, topic_id=b"x" * 16
    )


def append(log: Log, number: int) -> None:
    batch = bytearray(build_batch([Record(0, 0, b"key %d" % number, b"value", ())]))
    log.append(batch, read_header(batch), 0, 0)


def offsets(log: Log) -> list[int]:
    found, offset = [], 0
    while offset < log.end_offset:
        part = log.read(offset, 10_000, log.end_offset)
        assert part is not None
        found += [header.base_offset for header, _ in batches(part.read())]
        offset = found[-1] + 1
    return found


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_power_loss_leaves_no_hole_between_segments(policy: str) -> None:
    left = []
    for seed in SEEDS:
        world = World(seed)
        runtime = world.boot("a")
        runtime.disk.make_dirs(FOLDER)
        log = opened(runtime, policy)
        for number in range(30):
            append(log, number)
        runtime.disk.sync_dir(FOLDER)
        world.crash("a", power_loss=True)
        found = offsets(opened(world.boot("a"), policy))
        assert found == list(range(len(found))), f"seed {seed}"
        left.append(len(found))
    assert len(set(left)) > 3, "power was lost at the same place each time"
