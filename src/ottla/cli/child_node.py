"""A node as a child process of `ottla start --nodes`: its output, its end and the reason for it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024
_READY: Final = re.compile(r"Ottla \S+ ready in ")
_PR_SET_PDEATHSIG: Final = 1


class Lines:
    """Cuts a stream of bytes into lines. One that does not end comes out in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            whole.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace") for line in whole]

    def end(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []


class ChildNode:
    """One process, from its start to its end. `said` is called with each line it prints, but for
    the one that says that it is ready."""

    def __init__(
        self, number: int, config: Path, options: Sequence[str], said: Callable[[int, str], object]
    ) -> None:
        self.number = number
        # -P: a file of the current folder must not take the place of a module.
        self._command = [sys.executable, "-P", "-m", "ottla.cli.main", "start"]
        self._command += ["--config", str(config), *options]
        self._said = said
        self._last_line = ""
        self.ready = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> str:
        """Start it, and wait until it ends; why it did."""
        # In a session of its own, so that Ctrl-C reaches the command alone, which ends its nodes
        # one after the other.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        await asyncio.gather(
            self._read(self._process.stdout), self._read(self._process.stderr), self._process.wait()
        )
        assert self._process.returncode is not None
        return reason_of(self._process.returncode, self._last_line)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        lines = Lines()
        while data := await stream.read(LINE_BYTES_MAX):
            self._tell(lines.feed(data))
        self._tell(lines.end())

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            if not self.ready.is_set() and _READY.match(line):
                self.ready.set()
            else:
                self._last_line = line.strip() or self._last_line
                self._said(self.number, line)

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def ask_to_end(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                # Not by `send_signal`: if the process has just ended, that would take its exit code
                # away from the event loop, which complains and reports another one.
                os.kill(self._process.pid, number)
            except ProcessLookupError:
                pass  # it has just ended


def reason_of(code: int, last_line: str) -> str:
    """In words: the signal, or the code and what it said last."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if code and last_line:
        return f"ended with code {code}: {last_line.removeprefix('ottla: ')}"
    return f"ended with code {code}"


def end_with_parent() -> Callable[[], None] | None:
    """What a child does before its program: ask Linux to be told to end if the command is killed,
    for then nobody else would."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
