"""Run the simulation: `python tests/raft/raft_sim.py --seeds 1000`, or one with `--seed S`."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
import traceback
from collections.abc import Iterator
from typing import NamedTuple

import raft_bugs
from raft_world import World

REPLAY = "python tests/raft/raft_sim.py --seed {seed}"


class Failure(NamedTuple):
    seed: int
    text: str


def run(seed: int, *, bug: str | None = None, outcomes_only: bool = False) -> World:
    """One world from its seed to its end; an exception if anything is wrong."""
    with raft_bugs.planted(bug) if bug else contextlib.nullcontext():
        world = World(seed, outcomes_only=outcomes_only)
        world.run()
        return world


def find(bug: str, seeds: int, *, first: int = 0, outcomes_only: bool = False) -> Failure | None:
    """The first of these seeds in which the planted bug is noticed."""
    for seed in range(first, first + seeds):
        try:
            run(seed, bug=bug, outcomes_only=outcomes_only)
        except Exception as error:
            return Failure(seed, f"{type(error).__name__}: {error}")
    return None


def fresh_seeds() -> Iterator[int]:
    while True:
        yield random.SystemRandom().randrange(1 << 32)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--seed", type=int, help="the first seed; a fresh one if not given")
    parser.add_argument("--bug", choices=sorted(raft_bugs.BUGS), help="plant this bug")
    parser.add_argument("--outcomes-only", action="store_true", help="check less: see raft_checker")
    parser.add_argument("--verbose", action="store_true", help="a line a seed")
    options = parser.parse_args()
    first = next(fresh_seeds()) if options.seed is None else options.seed
    began, failures, steps = time.monotonic(), 0, 0
    for seed in range(first, first + options.seeds):
        try:
            world = run(seed, bug=options.bug, outcomes_only=options.outcomes_only)
            steps += world.checker.steps
            if options.verbose:
                print(f"seed {seed}: {world.summary()}")
        except Exception as error:
            failures += 1
            if options.seeds == 1:
                traceback.print_exc()
            print(f"{type(error).__name__}: {error}; replay: {REPLAY.format(seed=seed)}")
    took_s = time.monotonic() - began
    print(f"{options.seeds} seeds from {first}: {failures} failed; {steps} steps in {took_s:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
