"""The exactly-once story: a feed, a copy in two processes, and `kill -9` for everyone.

    python tests/faults/exactly_once.py --kills 50 [--seed N] [--protocol consumer]

Feed and copy are processes of their own, killed at moments that the seed decides. Each round waits
until the copy commits again, then kills; so every round also shows that nobody hangs. The truth is
what the feed has committed; `exactly_once_check.py` holds the copy against it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent, HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from bench.brokers import Broker  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402
from exactly_once_check import LiveReader, check  # noqa: E402
from process_notes import FENCED, read_notes  # noqa: E402

from broker_harness import build, fetch_kafka  # noqa: E402
from replaying import end_failures_with  # noqa: E402

SOURCE, TARGET, GROUP = "in", "out", "copies"
PARTITIONS = 4
PROGRESS_S = 40.0
TRANSACTION_TIMEOUT_S = 8.0
"""What the copies set as `transaction.timeout.ms`."""
SESSION_MS = 1500
# Short segments: rolls, transaction indexes and compaction of the coordinators' topics take part.
BROKER_OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "log.roll.ms": "5000",
    "log.cleaner.backoff.ms": "2000",
}
CLASSIC = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "300"}
# A zombie is a process that is stopped, replaced and woken; a sleeper is not replaced, but its
# partitions go to the others. 10 kills, in any order.
DECK = (
    *("copy", "broker", "feed", "broker and copy", "everyone"),
    *("zombie", "zombie and heir", "sleeper"),
)


class Child:
    """One process at a time, and the notes of all that ever had this part."""

    def __init__(self, folder: Path, name: str, command: Callable[[Path, str], list[str]]) -> None:
        self.folder = folder
        self.name = name
        self.command = command
        self.paths: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = self.folder / f"{self.name}-{len(self.paths):03}.notes"
        seed = f"{len(self.paths):03}"
        self.paths.append(path)
        with path.with_suffix(".output").open("wb") as output:
            self.process = subprocess.Popen(
                self.command(path, seed),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def part_with(self) -> subprocess.Popen[bytes]:
        """The process goes on, but another will have its part."""
        assert self.process is not None
        process, self.process = self.process, None
        return process

    def said(self, what: str, *, last_only: bool = False) -> int:
        paths = self.paths[-1:] if last_only else self.paths
        return sum(note["what"] == what for path in paths for note in read_notes(path))

    def last_word(self) -> str:
        with suppress(OSError), self.paths[-1].open("rb") as notes:
            notes.seek(-min(8192, os.fstat(notes.fileno()).st_size), os.SEEK_END)
            lines = notes.read().rpartition(b"\n")[0].splitlines()
            if lines:
                what: str = json.loads(lines[-1])["what"]
                return what
        return ""

    def notes(self) -> list[dict[str, Any]]:
        return [note for path in self.paths for note in read_notes(path)]


def timed_out(notes: list[dict[str, Any]]) -> bool:
    """True if a process was fenced because its last transaction took too long, on a machine that
    was busy with something else."""
    if len(notes) < 2 or notes[-1]["what"] != "fenced":
        return False
    took_s: float = notes[-1]["at"] - notes[-2]["at"]
    return took_s >= TRANSACTION_TIMEOUT_S


def java_program(libs: Path, folder: Path) -> list[str]:
    """The copy with Kafka's clients, compiled once: it starts many times."""
    source = str(HERE / "java" / "CopyProcess.java")
    command = ["javac", "-cp", f"{libs}/*", "-d", str(folder), source]
    subprocess.run(command, check=True, timeout=60)
    fast = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return ["java", *fast, "-cp", f"{folder}:{libs}/*", "CopyProcess"]


class Story:
    def __init__(
        self,
        broker: Broker,
        folder: Path,
        seed: int,
        protocol: str,
        say: Callable[[str], None],
        libs: Path | None = None,
    ) -> None:
        """With `libs`, the folder of Kafka's jars, the copies use Kafka's own clients."""
        self.broker, self.folder, self.protocol, self.say = broker, folder, protocol, say
        self.program = [sys.executable, str(HERE / "copy_process.py")]
        if libs is not None:
            self.program = java_program(libs, folder)
        self.chance = random.Random(seed)
        self.seed = seed
        self.kills: Counter[str] = Counter()
        self.zombies: list[subprocess.Popen[bytes]] = []
        self.fenced = 0
        self.sleepers = 0
        self.given_up: list[str] = []
        self.worst_pause_s = 0.0
        self.feed = Child(folder, "feed", self._feed_command)
        self.copies = [Child(folder, f"copy-{n}", self._copy_command(n)) for n in range(2)]
        self.children = [self.feed, *self.copies]

    def _feed_command(self, path: Path, seed: str) -> list[str]:
        where = [self.broker.address, SOURCE, str(PARTITIONS)]
        program = [sys.executable, str(HERE / "feed_process.py")]
        return [*program, *where, "feed", str(path), f"{self.seed}.{seed}"]

    def _copy_command(self, number: int) -> Callable[[Path, str], list[str]]:
        def command(path: Path, seed: str) -> list[str]:
            settings = {"group.protocol": self.protocol}
            if self.protocol == "classic":
                settings |= CLASSIC
            return [
                *self.program,
                *(self.broker.address, SOURCE, TARGET, str(PARTITIONS), GROUP),
                *(f"copy-{number}", str(path), f"{self.seed}.{seed}"),
                *(f"{key}={value}" for key, value in settings.items()),
            ]

        return command

    # The acts.

    def play(self, kills: int) -> dict[str, Any]:
        started = time.monotonic()
        self._create_topics()
        live = LiveReader(self.broker.address, TARGET, PARTITIONS)
        try:
            for child in self.children:
                child.start()
            self._rounds(kills)
            self._end_feed()
            found = check(self, live)
        except BaseException:
            self.say(f"seed {self.seed} failed; notes in {self.folder}")
            raise
        finally:
            live.stop()
            self._remove_all()
        return {
            "seed": self.seed,
            "protocol": self.protocol,
            "seconds": round(time.monotonic() - started, 1),
            "kills": dict(self.kills),
            "kills_total": self.kills.total(),
            "zombies_fenced": self.fenced,
            "sleepers": self.sleepers,
            "worst_pause_s": round(self.worst_pause_s, 1),
            "given_up": self.given_up,
            **found,
        }

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        topics = [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]
        for done in admin.create_topics(topics).values():
            done.result(30)

    def _rounds(self, kills: int) -> None:
        while self.kills.total() < kills:
            deck = list(DECK)
            self.chance.shuffle(deck)
            for act in deck:
                self.await_progress(of_all=self.chance.random() < 0.5)
                time.sleep(self.chance.uniform(0.0, 0.6))
                self.say(f"{self.kills.total():3} kills; next: {act}")
                self._act(act)
        self.await_progress(of_all=True)

    def _act(self, act: str) -> None:
        copy = self.chance.choice(self.copies)
        if self.chance.random() < 0.6:
            self._await_moment(copy, self.chance.choice(("begin", "committing")))
        match act:
            case "copy":
                self._kill_and_restart([copy])
            case "feed":
                self._kill_and_restart([self.feed])
            case "broker":
                self._kill_and_restart([], broker=True)
            case "broker and copy":
                self._kill_and_restart([copy], broker=True)
            case "everyone":
                self._kill_and_restart(self.children, broker=True)
            case "zombie":
                self._zombie(copy, heir_dies=False)
            case "zombie and heir":
                self._zombie(copy, heir_dies=True)
            case "sleeper":
                self._sleeper(copy)

    def _await_moment(self, copy: Child, what: str) -> None:
        """Chance alone seldom hits the few milliseconds in which a commit is under way."""
        deadline = time.monotonic() + 1.0
        while copy.last_word() != what and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(self.chance.uniform(0.0, 0.004))

    def _kill(self, child: Child) -> None:
        child.kill()
        self.kills[child.name] += 1

    def _kill_and_restart(self, children: list[Child], *, broker: bool = False) -> None:
        order: list[Child | None] = [*children, *([None] if broker else [])]
        self.chance.shuffle(order)
        for one in order:
            if one is None:
                self.broker.kill()
                self.kills["broker"] += 1
            else:
                self._kill(one)
        time.sleep(self.chance.choice((0.0, self.chance.uniform(0.0, 1.0))))
        for one in order:
            if one is None:
                self.broker.start()
            else:
                one.start()

    def _zombie(self, child: Child, *, heir_dies: bool) -> None:
        # One that has not begun yet would be the newer of the two once it wakes.
        self._await("it has begun", lambda: child.said("ready", last_only=True) > 0)
        time.sleep(self.chance.uniform(0.0, 0.3))
        zombie = child.part_with()
        self.zombies.append(zombie)
        path = child.paths[-1]
        os.kill(zombie.pid, signal.SIGSTOP)
        child.start()
        self._await("the heir is ready", lambda: child.said("ready", last_only=True) > 0)
        if heir_dies:
            time.sleep(self.chance.uniform(0.0, 1.0))
            self._kill(child)
            child.start()
        else:
            time.sleep(self.chance.choice((0.0, self.chance.uniform(0.0, 2.5))))
        os.kill(zombie.pid, signal.SIGCONT)
        self._await("the zombie is shut out", lambda: zombie.poll() is not None)
        self.zombies.remove(zombie)
        last = read_notes(path)[-1]
        # Java's consumer of the new protocol may hear from the group, on its first poll, that it
        # was put out, before its producer has said anything that could be fenced.
        put_out = "UnknownMemberIdException" in last["value"]
        assert zombie.returncode == FENCED or put_out, (
            f"a zombie ended with {zombie.returncode}: {last}"
        )
        self.fenced += 1

    def _sleeper(self, copy: Child) -> None:
        """What it had begun is stale when it wakes: the group refuses it, not the transaction."""
        assert copy.process is not None
        self._await("it has begun", lambda: copy.said("committed", last_only=True) > 0)
        self._await_moment(copy, "begin")
        os.kill(copy.process.pid, signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 + self.chance.uniform(0.5, 1.5))
        os.kill(copy.process.pid, signal.SIGCONT)
        self.sleepers += 1

    # Waiting, always with an end.

    def await_progress(self, *, of_all: bool) -> None:
        """The feed commits again, and so does any copy, or each that has a process now."""
        started = time.monotonic()
        before = self._committed()
        fed = self.feed.said("fed")
        self._await("the copy commits again", lambda: self._committed() > before)
        self._await("the feed commits again", lambda: self.feed.said("fed") > fed)
        if of_all:
            self._await(
                "every copy commits again",
                lambda: all(copy.said("committed", last_only=True) for copy in self.copies),
            )
        self.worst_pause_s = max(self.worst_pause_s, time.monotonic() - started)

    def _committed(self) -> int:
        return sum(copy.said("committed") for copy in self.copies)

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PROGRESS_S
        while not holds():
            self.replace_the_ended(self.children)
            assert time.monotonic() < deadline, (
                f"{what}: not within {PROGRESS_S} s (seed {self.seed}, notes in {self.folder})"
            )
            time.sleep(0.05)

    def replace_the_ended(self, children: list[Child]) -> None:
        """An application may end by itself after an error that it cannot mend; it begins anew."""
        for child in children:
            if child.ended():
                notes = read_notes(child.paths[-1])
                output = child.paths[-1].with_suffix(".output").read_text()[-1000:]
                reasons = [one["value"] for one in notes if one["what"] == "given up"]
                if timed_out(notes):
                    reasons.append(notes[-1]["value"])
                assert reasons, f"{child.name} ended by itself: {notes[-2:]} {output}"
                self.given_up.append(f"{child.name}: {reasons[-1]}")
                child.start()

    def _end_feed(self) -> None:
        self._await("the feed is ready", lambda: self.feed.said("ready", last_only=True) > 0)
        assert self.feed.process is not None
        self.feed.process.terminate()
        assert self.feed.process.wait(PROGRESS_S) == 0, self.feed.notes()[-1]

    def end_copies(self) -> None:
        for copy in self.copies:
            assert copy.process is not None
            copy.process.terminate()
        for copy in self.copies:
            assert copy.process is not None
            assert copy.process.wait(PROGRESS_S) == 0, copy.notes()[-1]

    def _remove_all(self) -> None:
        for child in self.children:
            child.kill()
        for zombie in self.zombies:
            zombie.kill()
            zombie.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Exactly once, under kill -9.")
    parser.add_argument("--kills", type=int, default=50, help="at least so many")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--folder", type=Path, default=None, help="kept; by default a new one")
    parser.add_argument("--java", action="store_true", help="copy with Kafka's own clients")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ottla-exactly-once-"))
    print(f"seed {seed}, protocol {options.protocol}, {options.kills} kills, in {folder}")
    end_failures_with(
        f"python tests/faults/exactly_once.py --kills {options.kills} --seed {seed} "
        f"--protocol {options.protocol}{' --java' if options.java else ''}"
    )
    broker = build(folder / "broker", BROKER_OPTIONS).start()
    try:
        libs = fetch_kafka.find() if options.java else None
        assert libs is not None or not options.java, "no jars: run scripts/fetch_kafka.py"
        story = Story(
            broker, folder, seed, options.protocol, lambda line: print(line, flush=True), libs
        )
        for key, value in story.play(options.kills).items():
            print(f"{key}: {value}")
        assert broker.stop() in (0, 143), broker.tail()
    finally:
        broker.kill()


if __name__ == "__main__":
    main()
