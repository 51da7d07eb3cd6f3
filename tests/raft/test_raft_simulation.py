"""The simulation, on seeds that nobody has seen before; and with bugs, which it has to find."""

from __future__ import annotations

import time

import pytest
import raft_bugs
import raft_sim

BUDGET_S = 10
SEEDS_MIN = 3
BUG_SEEDS = 20
"""Each planted bug is noticed within this many seeds."""


def test_fresh_seeds_keep_every_promise_and_make_progress() -> None:
    until = time.monotonic() + BUDGET_S
    for count, seed in enumerate(raft_sim.fresh_seeds()):
        if count >= SEEDS_MIN and time.monotonic() > until:
            print(f"{count} seeds")
            break
        print(f"replay: {raft_sim.REPLAY.format(seed=seed)}")
        raft_sim.run(seed)


def test_a_seed_tells_the_same_story_twice() -> None:
    first, second = raft_sim.run(12), raft_sim.run(12)
    assert first.summary() == second.summary()
    assert first.checker.committed == second.checker.committed


@pytest.mark.parametrize("bug", sorted(raft_bugs.BUGS))
def test_a_planted_bug_is_found(bug: str) -> None:
    found = raft_sim.find(bug, BUG_SEEDS)
    assert found is not None, f"{bug} went unnoticed in {BUG_SEEDS} seeds"
    print(f"seed {found.seed}: {found.text}")
