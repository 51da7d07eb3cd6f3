"""A driver that is killed leaves nothing running: neither its JVM nor Spark's Python processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

START_S = 120
GONE_S = 30

DRIVER = """
import pathlib, sys, time
from ottla.spark import spark_session

working = sys.argv[1]

spark = spark_session("killed", master="local[2]")

def asleep(batches):
    for batch in batches:
        pathlib.Path(working).touch()
        time.sleep(1000)
        yield batch

def work(rows, number):
    rows.mapInArrow(asleep, rows.schema).write.format("noop").mode("append").save()

rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
rows.writeStream.foreachBatch(work).start()
time.sleep(1000)
"""


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(one): int(two) for one, two in map(str.split, listed.stdout.splitlines())}
    found, new = [], [pid]
    while new:
        new = [one for one, parent in parents.items() if parent in new]
        found += new
    return found


def is_running(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def test_a_killed_driver_takes_its_jvm_and_workers_with_it(tmp_path: Path) -> None:
    working = tmp_path / "working"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(working)], stderr=subprocess.DEVNULL
    )
    children: list[int] = []
    try:
        wait_for(lambda: working.exists() or driver.poll() is not None, START_S)
        assert driver.poll() is None
        children = descendants(driver.pid)
        assert len(children) >= 3  # the JVM, and Python processes
        driver.kill()
        driver.wait()
        wait_for(lambda: not any(map(is_running, children)), GONE_S)
        assert [pid for pid in children if is_running(pid)] == []
    finally:
        driver.kill()
        driver.wait()
        for pid in filter(is_running, children):
            os.kill(pid, signal.SIGKILL)


def wait_for(happens: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.1)
