"""`python -m ottla.sim`: what it prints last, and how it ends."""

import os
import signal
import subprocess
import sys

import pytest

from ottla.sim import __main__ as command
from ottla.sim.playing import Game, Outcome


def outcome(seed: int, report: str) -> Outcome:
    text = "AssertionError: lost\n  1 record\n  2 records" if report else "fine"
    return Outcome(seed, text, 60.0, 1.0, "digest", Game(nodes=3).replay(seed), report)


def test_a_failed_simulation_ends_with_how_to_replay_each_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {7: "trace of 7", 8: "", 9: "trace of 9"}
    monkeypatch.setattr(command, "play", lambda task: outcome(task[1], reports[task[1]]))
    tasks = [(Game(nodes=3), seed) for seed in reports]
    assert command._play_all(tasks, jobs=1) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "replay it with: make sim SEED=7 NODES=3",
        "replay it with: make sim SEED=9 NODES=3",
    ]


def test_ctrl_c_tells_what_failed_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(task: tuple[Game, int]) -> Outcome:
        if task[1] == 2:
            raise KeyboardInterrupt
        return outcome(task[1], "trace")

    monkeypatch.setattr(command, "play", play)
    assert command._play_all([(Game(), 1), (Game(), 2)], jobs=1) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 failed, interrupted" in "\n".join(lines)
    assert lines[-1] == "replay it with: make sim SEED=1 NODES=3"


def test_ctrl_c_ends_all_processes_without_a_traceback() -> None:
    program = [sys.executable, "-m", "ottla.sim", "--scenario", "single-node", "--lives", "1"]
    program += ["--seed", "1", "--runs", "5000", "--jobs", "2"]
    running = subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that all of its processes hear Ctrl-C, as in a terminal
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("5000 seeds")
        assert ": ok, " in running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        told, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, told + errors
    assert "0 failed, interrupted" in told.splitlines()[-1]
    assert "Traceback" not in errors
