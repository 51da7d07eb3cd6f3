"""The driver of a crash story and all that it starts, as seen and killed from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WAIT_S = 240.0


def eventually(holds: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)


def session_of(leader: int) -> dict[int, str]:
    """Who lives in the session that a process began: program names by pid."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                name, _, rest = (folder / "stat").read_text().rpartition(")")
                state, _, _, session = rest.split()[:4]
                if int(session) == leader and state != "Z":
                    found[int(folder.name)] = name.partition("(")[2]
    return found


class DriverProcess:
    """One life of a driver: Python, its JVM, and Spark's Python workers."""

    def __init__(self, folder: Path, number: int, settings: Mapping[str, Any]) -> None:
        self.folder = folder / f"driver-{number}"
        self.folder.mkdir()
        self.notes_path = self.folder / "notes"
        self.output_path = self.folder / "output"
        path = self.folder / "settings.json"
        own = {"folder": str(self.folder), "notes": str(self.notes_path)}
        path.write_text(json.dumps({**settings, **own}))
        variables = {
            **os.environ,
            "OTTLA_CRASH_FOLDER": str(folder),
            "PYTHONPATH": f"{HERE / 'crash_site'}:{os.environ.get('PYTHONPATH', '')}",
        }
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "sink_driver.py"), str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )

    # What it says

    def notes(self) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError):
            whole = self.notes_path.read_bytes().rpartition(b"\n")[0]
            return [json.loads(line) for line in whole.splitlines()]
        return []

    def tell(self, what: str) -> None:
        (self.folder / what).write_text("")

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def tail(self) -> str:
        return self.output_path.read_text(errors="replace")[-3000:]

    # What is done to it

    def signal_all(self, number: signal.Signals, *, spare: int | None = None) -> None:
        """To all of its session; workers that are being born meanwhile come next round."""
        told: set[int] = set()
        while new := set(session_of(self.process.pid)) - told - {spare}:
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            told |= new
            time.sleep(0.01)

    def kill(self, *, spare: int | None = None) -> None:
        self.signal_all(signal.SIGKILL, spare=spare)
        self.process.wait(WAIT_S)

    def kill_jvm(self) -> None:
        for pid, name in session_of(self.process.pid).items():
            if name == "java":
                os.kill(pid, signal.SIGKILL)
