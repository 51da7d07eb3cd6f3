"""A crash story: a driver at work, what is done to it at a point, and what must hold after it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench.brokers import Broker
from confluent_kafka.admin import AdminClient, NewTopic
from crash_points import arm
from sink_check import Counts, Input, Output, check_nothing_open, open_transactions
from sink_processes import WAIT_S, DriverProcess, eventually

MODES = ("copy", "count", "late")
SOURCE = "in"
SOURCE_PARTITIONS, TARGET_PARTITIONS = 3, 2
COPY_S = 240.0
PASSED_BY_S = 15.0
TRIES_MAX = 4
BROKER_OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
LATE = "driver killed, replaced when its transactions have timed out"
LATE_SINK = {"kafka.transaction.timeout.ms": "30000", "lostTransactions": "rewrite"}
IN_PROCESS = {"worker killed": "kill", "worker fails": "fail"}
FROM_OUTSIDE = (
    *("driver killed", "JVM killed", "driver killed, worker lives on"),
    *("broker killed", "driver asleep, replaced, awake"),
)
ACTIONS = (*IN_PROCESS, *FROM_OUTSIDE)


class Crash(NamedTuple):
    point: str
    action: str
    after: tuple[str, str] | None = None
    """A crash that comes first, in whose recovery the point lies: point and action."""


class Told(NamedTuple):
    crash: Crash
    seconds: float


class Story:
    def __init__(
        self,
        broker: Broker,
        folder: Path,
        seed: int,
        mode: str,
        say: Callable[[str], None],
    ) -> None:
        """`mode` is copy, by the streaming sink; count, by foreachBatch in update mode; both; or
        late, a copy whose transactions time out before anybody comes to end them."""
        self.broker, self.folder, self.mode, self.say = broker, folder, mode, say
        self.sink = LATE_SINK if mode == "late" else {}
        self.chance = random.Random(seed)
        kinds: dict[str, list[type[Output]]] = {"both": [Output, Counts], "count": [Counts]}
        self.kinds = kinds.get(mode, [Output])
        self.drivers: list[DriverProcess] = []
        self.number = 0
        self.placed: Crash | None = None
        self.told: list[Told] = []
        self.outputs: list[Output] = []

    # The frame

    def begin(self, first: Crash | None = None) -> None:
        """Up to the second batch. A crash may strike the first, which makes what is missing."""
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        topics = [NewTopic(SOURCE, SOURCE_PARTITIONS, 1)]
        topics += [NewTopic(kind.kind, TARGET_PARTITIONS, 1) for kind in self.kinds]
        for done in admin.create_topics(topics).values():
            done.result(30)
        self.input = Input(self.broker.address, SOURCE, self.chance)
        self.outputs = [
            kind(self.broker.address, kind.kind, TARGET_PARTITIONS, self.folder / f"by-{kind.kind}")
            for kind in self.kinds
        ]
        self.start_driver()
        if first is not None:
            self.place(first)
        self.feed()
        self.await_copied()
        self.first_points = len(self.trace())
        self.feed()
        self.await_copied()

    def end(self) -> None:
        """After two batches without a crash, in which open transactions are found and ended,
        everything must be right."""
        for _ in range(2):
            self.feed()
            self.await_copied()
        self.driver.tell("stop")
        eventually(lambda: self.driver.ended, "the driver ends")
        self.check()
        check_nothing_open(self.broker.address)
        for output in self.outputs:
            output.check_anew()

    def remove(self) -> None:
        for driver in self.drivers:
            with suppress(Exception):
                driver.signal_all(signal.SIGCONT)
                driver.kill()
        for output in self.outputs:
            output.close()

    @property
    def driver(self) -> DriverProcess:
        return self.drivers[-1]

    def start_driver(self) -> None:
        settings = {
            "address": self.broker.address,
            "source": SOURCE,
            "queries": [(one.kind, one.topic, str(one.checkpoint)) for one in self.outputs],
            "sink": self.sink,
        }
        self.drivers.append(DriverProcess(self.folder, len(self.drivers), settings))

    def feed(self) -> None:
        self.input.feed(self.chance.randint(30, 80))

    # What has come out

    def await_copied(self) -> None:
        deadline = time.monotonic() + COPY_S
        while not all(output.has_all(self.input) for output in self.outputs):
            assert time.monotonic() < deadline, self.why_not()
            assert not self.driver.ended, f"the driver has ended:\n{self.driver.tail()}"
            self.read()

    def read(self) -> None:
        for output in self.outputs:
            output.read()

    def why_not(self) -> str:
        notes = "\n".join(str(note)[:1500] for note in self.driver.notes()[-5:])
        found = {output.topic: len(output.found) for output in self.outputs}
        counts = f"{len(self.input.sent)} records went in, and came out: {found}"
        return f"{counts}; at {self.placed}\n{notes}\n{self.driver.tail()}"

    def check(self) -> None:
        for output in self.outputs:
            output.read(0.3)  # what would be too much
            output.check(self.input)

    # Crashes

    def trace(self) -> list[str]:
        """The points that were reached, in order."""
        lines = (self.folder / "trace").read_text().splitlines()
        return [line.split(" ", 2)[2] for line in lines]

    def points(self) -> list[str]:
        """Of a batch in which nothing goes wrong; many of a kind are two."""
        reached = sorted(set(self.trace()[self.first_points :]))
        return [point for point in reached if int(point.rpartition(" ")[2]) <= 2]

    def place(self, crash: Crash) -> None:
        """A batch of few records may have one transaction instead of two, and never come by the
        second: then the next one is tried."""
        self.placed = crash
        for _ in range(TRIES_MAX):
            started = time.monotonic()
            struck = self.try_to_place(crash)
            self.await_copied()
            if struck:
                self.told.append(Told(crash, time.monotonic() - started))
                heading = f"{len(self.told):3} {self.told[-1].seconds:5.1f} s  {self.mode:5}"
                self.say(f"{heading} {words(crash)}")
                return
        raise AssertionError(f"no batch of {TRIES_MAX} came by {crash}: {self.why_not()}")

    def try_to_place(self, crash: Crash) -> bool:
        steps = [crash] if crash.after is None else [Crash(*crash.after), crash]
        armed: list[dict[str, Any]] = []
        for step in steps:
            self.number += 1
            action = IN_PROCESS.get(step.action, "hold")
            armed.append({"number": self.number, "point": step.point, "action": action})
        arm(self.folder, armed)
        self.feed()
        for step, one in zip(steps, armed, strict=True):
            if not self.is_struck(one["number"], step):
                (self.folder / "armed.json").unlink(missing_ok=True)
                return False
            self.perform(step.action, one["number"])
        return True

    def is_struck(self, number: int, crash: Crash) -> bool:
        """Waits for it; False if everything has come out and it did not happen."""
        deadline = time.monotonic() + WAIT_S
        done_at: float | None = None
        while not (self.folder / f"struck-{number}").exists():
            now = time.monotonic()
            assert now < deadline, f"nobody came by {crash}: {self.why_not()}"
            self.read()
            if done_at is None and all(output.has_all(self.input) for output in self.outputs):
                done_at = now
            if done_at is not None and now > done_at + PASSED_BY_S:
                return False
        return True

    def perform(self, action: str, number: int) -> None:
        match action:
            case "driver killed":
                self.driver.kill()
                self.start_driver()
            case "driver killed, replaced when its transactions have timed out":
                self.driver.kill()
                eventually(lambda: not open_transactions(self.broker.address), "a timeout")
                self.start_driver()
            case "JVM killed":
                self.driver.kill_jvm()
                self.go(number)
                self.driver.process.wait(WAIT_S)
                self.driver.kill()
                self.start_driver()
            case "driver killed, worker lives on":
                self.leave_orphan(number)
            case "broker killed":
                self.kill_broker(number)
            case "driver asleep, replaced, awake":
                self.zombie(number)

    def go(self, number: int) -> None:
        (self.folder / f"go-{number}").write_text("")

    def leave_orphan(self, number: int) -> None:
        worker = int((self.folder / f"struck-{number}").read_text())
        old = self.driver
        old.signal_all(signal.SIGKILL, spare=worker)
        old.process.wait(WAIT_S)
        self.start_driver()
        self.await_copied()
        self.go(number)
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "a worker without Spark ends")

    def kill_broker(self, number: int) -> None:
        self.broker.kill()
        if self.chance.random() < 0.5:  # whoever waits finds nobody there for a while
            self.go(number)
        self.broker.start()
        self.go(number)

    def zombie(self, number: int) -> None:
        old = self.driver
        old.signal_all(signal.SIGSTOP)
        self.start_driver()
        self.await_copied()
        self.feed()
        if self.chance.random() < 0.5:
            self.await_copied()
        old.tell("retired")
        self.go(number)
        old.signal_all(signal.SIGCONT)
        eventually(lambda: old.ended, "a driver that was replaced ends")
        old.kill()


def words(crash: Crash) -> str:
    first = f" (recovering from: {crash.after[1]} {crash.after[0]})" if crash.after else ""
    return f"{crash.action}: {crash.point}{first}"
