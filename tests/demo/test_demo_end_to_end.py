"""`ottla demo` as people start it: short, with everything killed once, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import process_tree

from broker_harness import missing
from ottla.cli.demo import what_is_missing

OTTLA = Path(sys.executable).parent / "ottla"
RUN_TIMEOUT_S = 400


@pytest.fixture(autouse=True)
def java() -> None:
    if reason := what_is_missing():
        missing(reason)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"}


@pytest.mark.timeout(RUN_TIMEOUT_S + 20)
def test_a_run_in_which_spark_and_broker_are_killed_comes_out_right(tmp_path: Path) -> None:
    command = [OTTLA, "demo", "--events", "3000", "--rate", "1200", "--chaos", "--seed", "7"]
    done = subprocess.run(
        command,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right  ") == 6
    assert "kill -9: Spark" in done.stdout
    assert "kill -9: broker 1" in done.stdout
    assert list(tmp_path.iterdir()) == [], "a folder is left behind"


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [OTTLA, "demo"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any("Starting Spark" in line for line in lines)
    family = wait_for_java(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert [name(pid) for pid in family if name(pid)] == []
    assert list(tmp_path.iterdir()) == []


def wait_for_java(pid: int) -> list[int]:
    """The processes below, as soon as Spark's JVM is one of them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        family = process_tree.pids(pid)
        if any(name(one) == "java" for one in family):
            return family
        time.sleep(0.05)
    raise AssertionError("no JVM within 60 s")


def name(pid: int) -> str:
    """Empty if there is no such process, or nothing of it but its exit code."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    command, _, rest = text.partition("(")[2].rpartition(")")
    return "" if rest.split()[0] == "Z" else command
