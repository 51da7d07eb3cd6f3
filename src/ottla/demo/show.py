"""The demo from its first line to its final check."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from ottla.blocking import Admin
from ottla.demo import rules
from ottla.demo.children import ChildFailed, Cluster
from ottla.demo.figures import Figures
from ottla.demo.outcome import read_outcome
from ottla.demo.payments import Generator
from ottla.demo.screen import Screen, show_checks
from ottla.demo.spark_driver import SparkDriver
from ottla.demo.traffic import AlertWatch, Terminals, send_customers
from ottla.demo.verify import verify
from ottla.demo.world import World

LOOK_EVERY_S = 0.2
KILL_DRIVER_AT, KILL_BROKER_AT = 0.3, 0.6
"""Shares of the run."""
NODES = 3
WARM_UP_PAYMENTS = 200
WARM_UP_TIMEOUT_S = 600.0
CALM_BATCHES = 3
"""Every query does this many batches before the next mishap, or there would be little to see."""
MISHAP_PATIENCE_S = 180.0


@dataclass(frozen=True)
class Options:
    seconds: float = 60.0
    events: int | None = None
    """If given, the run ends after this many events instead."""
    per_s: float = 1000.0
    """Payments per second at the peak of the day."""
    seed: int = 1
    data: Path | None = None
    """A folder that is kept; None for one that is removed at the end."""
    chaos: bool = False


def run(options: Options, console: Console) -> int:
    """Return 0 if all results are right, 1 if not."""
    # A SIGTERM must not leave child processes behind either.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return _run(options, console)
    except (KeyboardInterrupt, SystemExit):
        console.print("Stopped before the end: nothing was checked.")
        raise


def _run(options: Options, console: Console) -> int:
    with workspace(options.data) as place, ExitStack() as cleanup:
        try:
            code = Show(options, console, place.folder, cleanup).run()
        except (KeyboardInterrupt, SystemExit):
            for number in (signal.SIGINT, signal.SIGTERM):
                # Otherwise the next one would leave children behind.
                signal.signal(number, signal.SIG_IGN)
            console.print("Stopping Spark and the brokers; this takes some seconds")
            raise
        if code != 0 and not place.keeps:
            place.keeps = True
            console.print(f"What there is to look at is kept in {place.folder}", soft_wrap=True)
        return code


@dataclass
class Workspace:
    folder: Path
    keeps: bool


@contextmanager
def workspace(data: Path | None) -> Iterator[Workspace]:
    if data is not None:
        if data.exists() and any(data.iterdir()):
            raise FileExistsError(f"{data} is not empty: the demo wants a folder of its own")
        data.mkdir(parents=True, exist_ok=True)
        yield Workspace(data.resolve(), keeps=True)
        return
    place = Workspace(Path(tempfile.mkdtemp(prefix="ottla-demo-")), keeps=False)
    try:
        yield place
    finally:
        if not place.keeps:
            shutil.rmtree(place.folder, ignore_errors=True)


class Mishap(NamedTuple):
    at: float
    """The share of the run; later if Spark has done nothing since the last one."""
    happen: Callable[[], None]


class Show:
    def __init__(
        self, options: Options, console: Console, folder: Path, cleanup: ExitStack
    ) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._cleanup = cleanup
        self._figures = Figures()
        self._screen = Screen(console, self._figures)
        self._world = World.make(options.seed)
        self._cluster = Cluster(folder, NODES)
        self._batches_then = 0
        self._calm_since = 0.0

    def run(self) -> int:
        terminals, spark = self._start()
        with self._screen:
            self._warm_up(terminals, spark)
            self._screen.say("The shops open")
            self._figures.opened_at = time.time()
            terminals.start()
            self._play(terminals, spark)
            self._finish(terminals, spark)
        found = read_outcome(self._cluster.bootstrap, self._folder)
        checks = verify(terminals.sent, self._world.customers, found)
        self._screen.say(f"\n{len(terminals.sent):,} events went in. What came out:")
        show_checks(self._console, checks)
        return 0 if all(check.good for check in checks) else 1

    # Before: the preparations.

    def _start(self) -> tuple[Terminals, SparkDriver]:
        self._cleanup.callback(self._cluster.end)
        self._cluster.start()
        bootstrap = self._cluster.bootstrap
        self._screen.say(f"{NODES} brokers on {bootstrap}")
        self._screen.say(f"Data in {self._folder}")
        create_topics(bootstrap)
        send_customers(bootstrap, self._world.customers)
        self._screen.say("Starting Spark with the pipeline; this takes some seconds")
        spark = SparkDriver(bootstrap, self._folder, self._figures)
        self._cleanup.callback(spark.kill)
        spark.start()
        spark.await_ready()
        generator = Generator(self._world, self._options.seed, self._options.per_s)
        terminals = Terminals(bootstrap, generator, self._figures)
        self._cleanup.callback(terminals.close)
        watch = AlertWatch(bootstrap, terminals, self._figures)
        watch.start()
        self._cleanup.callback(watch.close)
        return terminals, spark

    def _warm_up(self, terminals: Terminals, spark: SparkDriver) -> None:
        """Wait until every query has done a batch: Spark's first one takes many times as long as
        any other, because it starts Python workers, compiles code and creates state stores."""
        began = time.monotonic()
        terminals.warm_up(WARM_UP_PAYMENTS)
        while self._figures.batches_done() == 0:
            if time.monotonic() - began > WARM_UP_TIMEOUT_S:
                raise ChildFailed(f"Spark did no batch within {WARM_UP_TIMEOUT_S:.0f} s")
            spark.look_after()
            self._screen.show("warming up")
            time.sleep(LOOK_EVERY_S)
        took_s = time.monotonic() - began
        self._screen.say(f"Warmed up with {WARM_UP_PAYMENTS} payments in {took_s:.0f} s")

    # The run itself.

    def _play(self, terminals: Terminals, spark: SparkDriver) -> None:
        began = self._calm_since = time.monotonic()
        self._batches_then = self._figures.batches_done()
        mishaps = self._mishaps(spark) if self._options.chaos else []
        while (share := self._share_done(began, terminals)) < 1 or mishaps:
            if share >= 1:
                terminals.close()
            if terminals.failure is not None:
                raise terminals.failure
            is_idle = share >= 1 and self._figures.lag == 0  # nothing more will come
            if mishaps and share >= mishaps[0].at and (is_idle or self._has_worked_since()):
                mishaps.pop(0).happen()
                self._batches_then = self._figures.batches_done()
                self._calm_since = time.monotonic()
            spark.look_after()
            self._screen.show(self._left(share))
            time.sleep(LOOK_EVERY_S)

    def _has_worked_since(self) -> bool:
        """True if every query has done some batches since the last mishap, or takes too long."""
        waited_s = time.monotonic() - self._calm_since
        done = self._figures.batches_done() - self._batches_then
        return done >= CALM_BATCHES or waited_s > MISHAP_PATIENCE_S

    def _share_done(self, began: float, terminals: Terminals) -> float:
        if self._options.events is not None:
            return len(terminals.sent) / self._options.events
        return (time.monotonic() - began) / self._options.seconds

    def _left(self, share: float) -> str:
        if self._options.events is not None:
            return f"{min(1, share):.0%} sent"
        return f"{max(0, round(self._options.seconds * (1 - share)))} s to go"

    def _mishaps(self, spark: SparkDriver) -> list[Mishap]:
        return [
            Mishap(KILL_DRIVER_AT, lambda: self._kill_driver(spark)),
            Mishap(KILL_BROKER_AT, self._kill_broker),
        ]

    def _kill_driver(self, spark: SparkDriver) -> None:
        self._figures.note("[red]kill -9: Spark, in the middle of its work[/]")
        spark.kill()

    def _kill_broker(self) -> None:
        self._figures.note("[red]kill -9: broker 1; it comes back by itself[/]")
        self._cluster.kill_node(1)

    # After: let everything finish.

    def _finish(self, terminals: Terminals, spark: SparkDriver) -> None:
        self._screen.say("No more payments; letting the pipeline finish what is there")
        terminals.close()
        terminals.join()
        if terminals.failure is not None:
            raise terminals.failure
        spark.finish(lambda: self._screen.show("finishing"))


def create_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic, partitions in rules.TOPICS.items():
            policy = "compact" if topic in rules.COMPACTED else "delete"
            # The story is older than a week: with Kafka's default its records would soon be
            # deleted.
            configs = {"cleanup.policy": policy, "retention.ms": "-1"}
            admin.create_topic(topic, partitions=partitions, configs=configs)
