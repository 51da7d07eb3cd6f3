"""Whole clusters in the simulated world: fresh seeds each time, and those that once found a bug.

In a process of their own, where hashes are not salted: a seed that fails here fails by `make sim`.
"""

import subprocess
import sys

import pytest

from ottla.sim import World
from ottla.sim.cluster.nemesis import Storm
from ottla.sim.scenarios.cluster import play

FRESH_SEEDS = 3


def simulate(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.sim", *arguments, "--jobs", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_a_cluster_keeps_its_promises_in_any_storm() -> None:
    told = simulate("--runs", str(FRESH_SEEDS))
    print(told)
    assert told.count(": ok, nodes ") == FRESH_SEEDS


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("seed", "nodes"),
    [
        pytest.param(1, 3, id="a follower caught up while it was fenced, and never joined the ISR"),
        pytest.param(10, 1, id="a fetch that began at an abort marker hid the records behind it"),
        pytest.param(1004, None, id="a position behind a marker had the epoch before the marker's"),
        pytest.param(1000592, None, id="a consumer that was fenced committed as nobody"),
    ],
)
def test_what_once_went_wrong_in_a_cluster_stays_right(seed: int, nodes: int | None) -> None:
    simulate("--seed", str(seed), *(() if nodes is None else ("--nodes", str(nodes))))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_cluster_replays_to_the_same_trace(dynamic: bool) -> None:
    def digest() -> str:
        world = World(5)
        storm = Storm(seconds=8.0, pause_s=1.0)
        play(5, nodes=3, dynamic=dynamic, storm=storm, world=world)
        return world.trace.digest()

    assert digest() == digest()
