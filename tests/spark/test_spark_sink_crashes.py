"""The sink under crashes: the short version of `make soak-spark`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sink_crashes import DECIDED
from sink_story import BROKER_OPTIONS, Crash, Story

from broker_harness import MakeBroker

WITHIN_S = 300


def play(
    fresh_broker: MakeBroker, folder: Path, mode: str, seed: int, crashes: list[Crash]
) -> None:
    broker = fresh_broker(BROKER_OPTIONS)
    story = Story(broker, folder, seed, mode, print)
    try:
        story.begin()
        for crash in crashes:
            story.place(crash)
        story.end()
    finally:
        story.remove()


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.ottla_only
def test_spark_sink_copies_each_record_once_through_crashes_at_its_steps(
    fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    """A worker, a commit and the driver die, and the broker: one after another."""
    seed = random.SystemRandom().randrange(1 << 31)
    chance = random.Random(seed)
    print(f"seed {seed}; more: python tests/spark/sink_crashes.py --seed {seed}")
    crashes = [
        Crash("task after prepare_transaction 1", "worker killed"),
        Crash(
            chance.choice((DECIDED, "commit after commit_prepared 1")),
            chance.choice(("worker killed", "worker fails")),
        ),
        Crash("commit before commit_prepared 2", "driver killed"),
        Crash(
            chance.choice(("commit before commit_transaction 1", "task before send_arrow 1")),
            "broker killed",
        ),
    ]
    play(fresh_broker, tmp_path, "copy", seed, crashes)


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.ottla_only
def test_spark_sink_in_foreach_batch_tells_each_update_once_through_a_crash(
    fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed {seed}; more: python tests/spark/sink_crashes.py --mode count --seed {seed}")
    play(fresh_broker, tmp_path, "count", seed, [Crash(DECIDED, "worker killed")])
