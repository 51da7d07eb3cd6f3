"""Ctrl-C ends README's programs on Spark: at once, without a traceback, and nothing goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.blocking import Admin, Consumer, Producer
from ottla.client.values import TopicPartition

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    code
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    if "spark_session(" in code
]
TOPICS = [("payments", "payments-upper"), ("lines", "word-counts")]
WORKS_WITHIN_S = 200
ENDS_WITHIN_S = 30


@pytest.mark.parametrize(
    ("code", "topics"), list(zip(PROGRAMS, TOPICS, strict=True)), ids=["copy", "word count"]
)
def test_ctrl_c_ends_the_program_of_the_readme_quietly(
    bootstrap: str, topic: str, tmp_path: Path, code: str, topics: tuple[str, str]
) -> None:
    read, written = (f"{topic}-{name}".replace(" ", "-") for name in topics)
    code = code.replace("localhost:9092", bootstrap)
    for name, own in zip(topics, (read, written), strict=True):
        code = code.replace(f'"{name}"', f'"{own}"')
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(read, partitions=1)
        admin.create_topic(written, partitions=1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(read, b"the log is the database")

    # In a process group of its own, which is what a terminal sends Ctrl-C to.
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for_a_record(bootstrap, written, program)
        os.killpg(program.pid, signal.SIGINT)
        _, errors = program.communicate(timeout=ENDS_WITHIN_S)
    finally:
        program.kill()
        program.wait()
    assert errors == ""
    assert program.returncode == -signal.SIGINT  # 130 in a shell


def wait_for_a_record(bootstrap: str, topic: str, program: subprocess.Popen[str]) -> None:
    place = TopicPartition(topic, 0)
    deadline = time.monotonic() + WORKS_WITHIN_S
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        while consumer.end_offsets([place])[place] == 0:
            assert program.poll() is None, "the program has ended by itself"
            assert time.monotonic() < deadline, "the program has written nothing"
            time.sleep(0.1)
