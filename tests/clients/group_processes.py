"""Members of groups as processes, of any client library, and the topic they read."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAIT_S = 25.0
CLASSIC = ("confluent", "kafka-python", "aiokafka", "kafkajs", "ottla")
NEW = "confluent, new protocol"
OURS_NEW = "ottla, new protocol"
ALL = (*CLASSIC, NEW, OURS_NEW)


class Member:
    def __init__(self, command: list[str]) -> None:
        self.assigned: list[int] | None = None
        self.read: list[tuple[int, int, str]] = []
        self.committed = 0
        self.assignments = 0
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            ((what, value),) = json.loads(line).items()
            if what == "assigned":
                self.assigned = value
                self.assignments += 1
            elif what == "read":
                self.read.append(tuple(value))
            else:
                self.committed = len(self.read)

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in self.read]

    def leave(self) -> None:
        self._process.terminate()
        self._end(WAIT_S)

    def kill(self) -> None:
        self._process.kill()
        self._end(5)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _end(self, wait_s: float) -> None:
        self._process.wait(wait_s)

    def complaint(self) -> str:
        if self._process.poll() is None:
            return "still running"
        assert self._process.stderr is not None
        return self._process.stderr.read()[-2000:]


Join = Callable[..., Member]


def until(condition: Callable[[], object], *members: Member) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            seen = [(m.assigned, len(m.read), m.committed, m.complaint()) for m in members]
            pytest.fail(f"it did not come to that within {WAIT_S} s: {seen}")
        time.sleep(0.02)


def has_read(member: Member, values: list[str]) -> Callable[[], bool]:
    return lambda: len(member.read) >= len(values) and member.committed >= len(values)


def shared(*members: Member) -> Callable[[], bool]:
    """Whether every partition has exactly one owner, and nobody is idle."""
    return lambda: (
        all(member.assigned for member in members)
        and sorted(chain(*(member.assigned or () for member in members))) == [0, 1, 2, 3]
    )
