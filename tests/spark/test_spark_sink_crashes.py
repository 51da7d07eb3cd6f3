"""The sink under crashes: the short version of `make soak-spark`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sink_crashes import DECIDED, UNDECIDED
from sink_story import BROKER_OPTIONS, Crash, Story

from broker_harness import MakeBroker


@pytest.mark.timeout(600)  # two JVMs start, one after the other
@pytest.mark.ottla_only
def test_spark_sink_writes_each_record_once_through_crashes_at_its_steps(
    fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    """A copy, and updates by foreachBatch, side by side in one driver; either may be struck."""
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
        Crash(chance.choice((UNDECIDED, "task before send_arrow 1")), "broker killed"),
    ]
    story = Story(fresh_broker(BROKER_OPTIONS), tmp_path, seed, "both", print)
    try:
        story.begin()
        for crash in crashes:
            story.place(crash)
        story.end()
    finally:
        story.remove()
