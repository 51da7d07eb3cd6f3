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
    """Cuts a stream of bytes into lines. A line without an end comes out in pieces."""

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
    """One process, from its start to its end. `said` is called with each line it prints, except the
    one that says it is ready."""

    def __init__(
        self,
        number: int,
        config: Path,
        options: Sequence[str],
        said: Callable[[int, str], object],
        now: Callable[[], float],
    ) -> None:
        self.number = number
        self._now = now
        # -P: a file in the current folder must not replace a module.
        self._command = [sys.executable, "-P", "-m", "ottla.cli.main", "start"]
        self._command += ["--config", str(config), *options]
        self._said = said
        self._last_line = ""
        self.ready = asyncio.Event()
        self._ready_at: float | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> str:
        """Start the process and wait until it ends; return the reason."""
        # In its own session, so that Ctrl-C reaches only the command, which ends its nodes one
        # after the other.
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
            self._take_lines(lines.feed(data))
        self._take_lines(lines.end())

    def _take_lines(self, lines: list[str]) -> None:
        for line in lines:
            if not self.ready.is_set() and _READY.match(line):
                self.ready.set()
                self._ready_at = self._now()
            else:
                self._last_line = line.strip() or self._last_line
                self._said(self.number, line)

    @property
    def healthy_s(self) -> float:
        """Seconds since it was ready; 0 if it never was."""
        return 0.0 if self._ready_at is None else self._now() - self._ready_at

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    @property
    def ended_properly(self) -> bool:
        """True also if it was asked to end before it handled signals."""
        asked = (-signal.SIGTERM, -signal.SIGINT)
        return self.exit_code == 0 or (not self.ready.is_set() and self.exit_code in asked)

    def ask_to_end(self, *, alone: bool = False) -> None:
        """Ask the process to end. `alone`: no other node can take over its leaders, so it ends
        without trying to hand them over."""
        self._signal(signal.SIGTERM)
        if alone:
            # A different signal, because two of the same kind may arrive as one.
            self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                # Not with `send_signal`: if the process has just ended, that would take its exit
                # code away from the event loop, which then warns and reports another one.
                os.kill(self._process.pid, number)
            except ProcessLookupError:
                pass  # it has just ended


def reason_of(code: int, last_line: str) -> str:
    """Return the reason in words: the signal, or the exit code and the last line."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if code and last_line:
        return f"ended with code {code}: {last_line.removeprefix('ottla: ')}"
    return f"ended with code {code}"


def end_with_parent() -> Callable[[], None] | None:
    """Return a function that a child calls before its program: it asks Linux to end the child if
    the command is killed, because then nobody else would."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
