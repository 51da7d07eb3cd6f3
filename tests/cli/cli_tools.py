"""Calling the command line: in this process, or as the program that users call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
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


def eventually(happens: Callable[[], bool], within_s: float = 10) -> None:
    """Brokers may learn of a change a little after it is acknowledged."""
    deadline = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < deadline, "it never happened"
