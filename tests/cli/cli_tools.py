"""Calling the command line: in this process, or as the program that users call."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ottla.cli.root import app

PROGRAM = str(Path(sys.executable).parent / "ottla")


@dataclass
class Outcome:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Outcome]


def call(*arguments: object, environment: dict[str, str] | None = None) -> Outcome:
    """In this process: no interpreter to start."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], env=environment or {})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr)


def execute(
    *arguments: object,
    stdin: bytes = b"",
    environment: dict[str, str] | None = None,
    timeout_s: float = 30,
) -> Outcome:
    """As a program of its own, with stdin."""
    done = subprocess.run(
        [PROGRAM, *(str(each) for each in arguments)],
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr.decode())


def on_terminal(
    *arguments: object,
    typed: bytes = b"",
    columns: int = 80,
    environment: dict[str, str] | None = None,
    timeout_s: float = 30,
) -> tuple[int, str]:
    """As a program at a terminal of so many columns: its exit code and all that it shows."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [PROGRAM, *(str(each) for each in arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environ, "TERM": "xterm", **(environment or {})},
    )
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], timeout_s)
            assert ready, f"nothing more within {timeout_s} s: {shown!r}"
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                part = b""
            if not part:
                return process.wait(timeout_s), shown.decode().replace("\r\n", "\n")
            shown += part
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def eventually(happens: Callable[[], bool], within_s: float = 10) -> None:
    """Brokers may learn of a change a little after it is acknowledged."""
    deadline = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < deadline, "it never happened"


READY = re.compile(
    r"Ottla (?P<version>\S+) ready in (?P<seconds>\d+\.\d\d) s: "
    r"(?P<places>\S+:\d+(, \S+:\d+)*), data in (?P<folder>.+)\n"
)


@contextmanager
def started(*arguments: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A broker and its ready line; it is ended afterwards."""
    process = subprocess.Popen(
        [PROGRAM, "start", *(str(each) for each in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready, line + (process.stderr.read() if process.stderr and not line else "")
        yield process, ready
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
