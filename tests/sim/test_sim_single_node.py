"""The real broker in the simulated world."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from ottla.sim import World, __main__
from ottla.sim.inode import Inode
from ottla.sim.scenarios.single_node import play
from ottla.sim.volume import Volume

SINGLE = ["--scenario", "single-node"]


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_promise_is_broken_by_any_crash(seed: int) -> None:
    summary = play(seed)
    assert summary.lives == 6
    assert summary.acknowledged > 0
    assert summary.checked > 0


@pytest.mark.parametrize(
    "seed",
    [pytest.param(20261123, id="a failing disk left an empty log beside the one in use")],
)
def test_what_once_went_wrong_stays_right(seed: int) -> None:
    assert play(seed).lives == 6


def test_a_seed_replays_to_the_same_trace_here_and_in_another_interpreter() -> None:
    def digest() -> str:
        world = World(3, time_limit_s=36_000)
        play(3, lives=3, world=world)
        return world.trace.digest()[:12]

    first = digest()
    assert first == digest()
    done = subprocess.run(
        [sys.executable, "-m", "ottla.sim", *SINGLE, "--seed", "3", "--lives", "3"],
        env={**os.environ, "PYTHONHASHSEED": "123"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"trace {first}" in done.stdout


def do_nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        pytest.param(Inode, "sync", id="files are never synced"),
        pytest.param(Volume, "sync_dir", id="folders are never synced"),
    ],
)
def test_a_disk_that_lies_about_syncing_is_found_out(
    owner: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proof that the scenario can fail: with these calls left out the promises do break."""
    monkeypatch.setattr(owner, method, do_nothing)
    assert failures(lambda seed: play(seed), range(1, 6)) > 0


def failures(story: Callable[[int], object], seeds: range) -> int:
    count = 0
    for seed in seeds:
        try:
            story(seed)
        except Exception:
            count += 1
    return count


def test_a_failure_prints_the_line_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Volume, "sync_dir", do_nothing)
    monkeypatch.setattr(__main__, "_start_again_with_fixed_hashes", do_nothing)
    monkeypatch.setattr(
        sys, "argv", ["ottla.sim", *SINGLE, "--seed", "1", "--runs", "5", "--jobs", "1"]
    )
    assert __main__.main() == 1
    assert "replay it with: make sim SEED=" in capsys.readouterr().out
