"""Brokers as child processes: Ottla, or Apache Kafka from its jars, with one interface.

The tests and the bench both run brokers through this module, so that both brokers are used in the
same way. Everything listens on 127.0.0.1 and ends with its parent.
"""

from __future__ import annotations

import base64
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from ottla.config.listeners import SECURITY_PROTOCOLS
from ottla.runtime.ports import free_port as free_port

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
HOST = "127.0.0.1"
_READY = re.compile(rb"127\.0\.0\.1:([1-9]\d*)")
# Also printed if clients are sent to another address, for example a proxy.
_LISTENING = re.compile(rb"listening on 127\.0\.0\.1:([1-9]\d*)")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class BrokerFailed(RuntimeError):
    """A broker that did not start, or did not stop cleanly; the message ends with its output."""


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Broker:
    """A broker process with its own data folder. Subclasses define how it is started."""

    name = "broker"

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.options = dict(options or {})
        self.variables: dict[str, str] = {}
        self.more_listeners: list[str] = []
        """`NAME://HOST:PORT` besides the plain one."""
        self.port = 0
        self.start_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    # Defined by subclasses.

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare a start: ports, files, formatting."""

    def find_port(self) -> int | None:
        """Return the port, as soon as the process has announced it."""
        return self.port

    def answers(self, port: int) -> bool:
        """Return whether it serves clients at this port."""
        return answers(port)

    # Starting and stopping.

    def start(self) -> Broker:
        if self._process is not None:
            raise BrokerFailed(f"{self.name} is already running with pid {self.pid}")
        self.prepare()
        started = time.monotonic()
        with self.output_path.open("ab") as output:
            self._start_mark = output.tell()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self.environment(),
                preexec_fn=_die_with_parent,
            )
        self._await_answer(started + START_TIMEOUT_S)
        self.start_s = time.monotonic() - started
        return self

    def _await_answer(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self._running.poll() is not None:
                code = self._running.returncode
                self._process = None
                raise BrokerFailed(f"{self.name} ended with {code} on start:\n{self.tail()}")
            port = self.find_port()
            if port and self.answers(port):
                self.port = port
                return
            time.sleep(0.005)
        output = self.tail()
        self.kill()
        raise BrokerFailed(f"{self.name} gave no answer within {START_TIMEOUT_S} s:\n{output}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, wait, and return its exit code."""
        process = self._running
        process.send_signal(number)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            output = self.tail()
            self.kill()
            raise BrokerFailed(
                f"{self.name} did not end within {STOP_TIMEOUT_S} s of {number.name}:\n{output}"
            ) from None
        self._process = None
        return code

    def kill(self) -> None:
        """Kill it with `kill -9`, without a flush."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> Broker:
        self.stop()
        return self.start()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Visible from outside.

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def output_path(self) -> Path:
        return self.folder / "output.log"

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.output.splitlines()[-lines:])

    def cpu_s(self) -> float:
        """Return user and system time of the whole process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def rss_bytes(self) -> int:
        return self._status_kib("VmRSS") * 1024

    def peak_rss_bytes(self) -> int:
        return self._status_kib("VmHWM") * 1024

    def _status_kib(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise KeyError(field)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerFailed(f"{self.name} is not running")
        return self._process

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


class Ottla(Broker):
    name = "Ottla"

    def __init__(
        self,
        folder: Path,
        options: Mapping[str, str] | None = None,
        *,
        bin_folder: Path = Path(sys.executable).parent,
    ) -> None:
        """`bin_folder` has the command: that of this checkout, or of another one."""
        super().__init__(folder, options)
        self._program = bin_folder / "ottla"

    def command(self) -> list[str]:
        # The port of the first start is kept over restarts, so that clients find it again.
        line = [str(self._program), "start", "--listener", f"{HOST}:{self.port}"]
        for listener in self.more_listeners:
            line += ["--listener", listener]
        if "log.dirs" not in self.options:
            line += ["--data", str(self.data)]
        for key, value in self.options.items():
            line += ["-o", f"{key}={value}"]
        return line

    def find_port(self) -> int | None:
        with self.output_path.open("rb") as output:
            output.seek(self._start_mark)
            text = output.read()
        found = _LISTENING.search(text) or _READY.search(text)
        return int(found.group(1)) if found else None

    def environment(self) -> dict[str, str]:
        # No colours and no wrapping of the ready line, whatever terminal the tests run in.
        return {**super().environment(), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "500"}


class Kafka(Broker):
    """Apache Kafka in combined mode, with the JVM options of its own start script."""

    name = "Kafka"
    JVM: tuple[str, ...] = (
        "-server",
        "-Xmx1g",
        "-Xms1g",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
    )
    SINGLE_NODE = {
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }

    def __init__(
        self, folder: Path, options: Mapping[str, str] | None = None, *, libs: Path
    ) -> None:
        super().__init__(folder, options)
        self.libs = libs

    def prepare(self) -> None:
        if not self.port:
            self.port = free_port()
            self._controller_port = free_port()
        listeners = [
            f"PLAINTEXT://{HOST}:{self.port}",
            *self.more_listeners,
            f"CONTROLLER://{HOST}:{self._controller_port}",
        ]
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self._controller_port}",
            "log.dirs": str(self.data),
            "metadata.log.dir": str(self.data),
            **self.SINGLE_NODE,
            **self.options,
        }
        if self.more_listeners:
            # With other protocols than PLAINTEXT, Kafka has no default for controllers.
            protocols = ("CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in SECURITY_PROTOCOLS))
            properties.setdefault("listener.security.protocol.map", ",".join(protocols))
        self._file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if not (self.data / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            run_java(
                self.libs,
                *("kafka.tools.StorageTool", "format", "--standalone"),
                # In one word: one in 64 of these ids begins with a dash, like an option.
                *(f"--cluster-id={cluster}", "-c", str(self._file)),
            )

    def command(self) -> list[str]:
        return ["java", *self.JVM, "-cp", f"{self.libs}/*", "kafka.Kafka", str(self._file)]

    @property
    def _file(self) -> Path:
        return self.folder / "server.properties"


def run_java(
    libs: Path, *arguments: str, stdin: str | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line classes; `CalledProcessError` has its output."""
    # Serial collector and first compiler only: this halves the start-up time of a short command.
    fast = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    done = subprocess.run(
        ["java", *fast, "-cp", f"{libs}/*", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        raise subprocess.CalledProcessError(
            done.returncode, arguments[:1], f"{done.stdout}\n{done.stderr}"
        )
    return done


# ApiVersions v0, correlation id 7, client id null: the smallest request that every broker answers.
_QUESTION = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


def answers(port: int, timeout_s: float = 2.0) -> bool:
    """True if a whole ApiVersions response comes back: then the broker is ready for clients."""
    try:
        with socket.create_connection((HOST, port), timeout_s) as peer:
            peer.sendall(_QUESTION)
            head = peer.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 10 and head[4:] == bytes.fromhex("00000007 0000")
