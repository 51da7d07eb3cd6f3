"""The Spark process as the demo sees it: restarted whenever it ends too early."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from ottla.demo.children import Child, ChildFailed
from ottla.demo.figures import Figures

READY_TIMEOUT_S = 300.0
FINISH_TIMEOUT_S = 600.0
RESTARTS_MAX = 5


class SparkDriver(Child):
    def __init__(self, bootstrap: str, folder: Path, figures: Figures) -> None:
        super().__init__("Spark", folder / "driver.log")
        self._command = [sys.executable, "-m", "ottla.demo.driver", bootstrap, str(folder)]
        self._figures = figures
        self._starts = 0
        self._heard = ""
        self._reason = ""

    def start(self) -> None:
        self._starts += 1
        self._heard = self._reason = ""
        self.launch(self._command, talks=True)
        Thread(target=self._listen, daemon=True).start()

    def await_ready(self) -> None:
        self._await("started", READY_TIMEOUT_S)

    def look_after(self) -> None:
        """Restart it if it has ended; checkpoints and transactions make that harmless."""
        if self.running:
            return
        if self._starts > RESTARTS_MAX:
            raise ChildFailed(
                f"Spark ended {self._starts} times: {self._reason or self.last_words()}"
            )
        why = f" ({self._reason.splitlines()[0]})" if self._reason else ""
        self._figures.note(f"[yellow]Spark has ended{why}; starting it again[/]")
        self.kill()
        self.start()

    def finish(self, look: Callable[[], object]) -> None:
        """Let it process everything and end. `look` is called all the while."""
        deadline = time.monotonic() + FINISH_TIMEOUT_S
        while self._heard != "finished" and time.monotonic() < deadline:
            self.look_after()
            if self._heard == "started":
                self._order("finish")
            look()
            time.sleep(0.1)
        if self._heard != "finished":
            raise ChildFailed(f"Spark did not finish within {FINISH_TIMEOUT_S:.0f} s")
        self.end()

    def _order(self, text: str) -> None:
        assert self.process.stdin is not None
        self._heard = "ordered"
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has just ended, which the next round notices

    def _await(self, event: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._heard != event:
            if not self.running or time.monotonic() > deadline:
                raise ChildFailed(f"Spark did not start: {self._reason or self.last_words()}")
            time.sleep(0.05)

    def _listen(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        for line in stdout:
            told = json.loads(line)
            if told["event"] == "batch":
                self._figures.batch_done(told)
            else:
                self._reason = told.get("reason", "")
                self._heard = told["event"]
