"""The processes of the demo: they end with it, however it ends, and can be killed for show."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
FAMILY_PATIENCE_S = 5.0
_READY = re.compile(r"ready in .* s: ((?:127\.0\.0\.1:\d+, )+)")
_PR_SET_PDEATHSIG = 1


class ChildFailed(RuntimeError):
    """A process that failed at its purpose; the message ends with its output."""


def child_of_ours() -> Callable[[], None] | None:
    """Return a function that a child calls before its program: it asks Linux to kill the child if
    this process dies."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A process with its output in a file, in its own session, so that Ctrl-C does not reach it."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._process: subprocess.Popen[str] | None = None

    def launch(self, command: list[str], *, talks: bool = False) -> None:
        """Start it. With `talks`, stdin and stdout are pipes, and only stderr goes to the file."""
        # Temporary files of a killed program are removed with the demo's folder.
        temporary = self.log.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
                text=True,
                env={
                    **os.environ,
                    "NO_COLOR": "1",
                    "COLUMNS": "500",
                    "TMPDIR": str(temporary),
                    # A file in the current folder must not replace a module.
                    "PYTHONSAFEPATH": "1",
                },
                start_new_session=True,
                preexec_fn=child_of_ours(),
            )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it with `kill -9`, and all processes that it has started."""
        if self._process is not None:
            family = family_of(self._process.pid)
            self._process.kill()
            self._process.wait()
            self._process = None
            end_all(family, patience_s=0)

    def end(self) -> None:
        """Ask it to end; kill it if it does not."""
        if self._process is None:
            return
        family = family_of(self._process.pid)
        try:
            if self._process.stdin:
                self._process.stdin.close()
            else:
                self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            pass  # it does not react any more
        finally:
            self.kill()
            end_all(family, patience_s=FAMILY_PATIENCE_S)

    def last_words(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Cluster(Child):
    """The brokers of the demo: `ottla start --nodes`, which restarts a node that dies."""

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__("the cluster", folder / "cluster.log")
        self.bootstrap = ""
        self._data = folder / "cluster"
        self._nodes = nodes

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "start", "--data", str(self._data)]
        self.launch([*command, "--listener", "127.0.0.1:0", "--nodes", str(self._nodes)])
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if found := _READY.search(self.log.read_text()):
                self.bootstrap = found.group(1).replace(" ", "").rstrip(",")
                return
            if not self.running:
                break
            time.sleep(0.02)
        raise ChildFailed(f"{self.name} did not start:\n{self.last_words()}")

    def kill_node(self, number: int) -> None:
        """Kill one broker with `kill -9`; `ottla start --nodes` restarts it in a second."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True
        )
        for line in listed.stdout.splitlines():
            pid, parent, command = line.split(maxsplit=2)
            if int(parent) == self.process.pid and f"node{number}.properties" in command:
                os.kill(int(pid), signal.SIGKILL)
                return
        raise ChildFailed(f"there is no broker {number} to kill:\n{self.last_words()}")


def family_of(pid: int) -> list[int]:
    """Return all running processes that a child has started, even if the child has ended: Spark's
    workers leave the process group, and its JVM may outlive its Python, but none leaves the
    session."""
    return [one for one in _pids() if one != pid and _session(one) == pid]


def end_all(pids: list[int], patience_s: float) -> None:
    """Wait for them to end by themselves, then kill them."""
    _await_end(pids, patience_s)
    for pid in filter(_is_alive, pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _await_end(pids, FAMILY_PATIENCE_S)


def _await_end(pids: list[int], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    """False for a zombie, too."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        # No such file: it has ended, or the system has no /proc.
        return not Path("/proc/self").exists()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None  # it has just ended, or belongs to somebody else


def _pids() -> list[int]:
    if Path("/proc/self").exists():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True)
    return [int(line) for line in listed.stdout.split()]
