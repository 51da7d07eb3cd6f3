"""The story of a cluster under faults: clients at work, and one thing after the other that breaks.

    python tests/cluster/cluster_faults.py --rounds 30 [--seed N]

Three nodes behind proxies; a producer with `acks=all` and idempotence at a steady pace, readers,
and a copy in transactions. Each round breaks one node (the leader of most partitions, the follower
of most, or the active controller), waits until writes are back, mends it, and waits until all
copies are in sync: never more faults at once than three copies promise to survive. The longest time
in which any partition had no acknowledgement is the time without service of that kind of fault.
`cluster_check.py` holds what was read against what was acknowledged.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "faults", HERE.parent, HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from bench.cluster_nodes import NODES  # noqa: E402
from cluster_check import check  # noqa: E402
from cluster_processes import ClusterNode, ThreeNodes, await_true  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402
from exactly_once import BROKER_OPTIONS, CLASSIC, GROUP, SOURCE, TARGET, Child  # noqa: E402
from exactly_once_check import LiveReader  # noqa: E402
from process_notes import read_notes  # noqa: E402
from steady_feed import Acked, read_acked  # noqa: E402

from ottla.blocking import Admin  # noqa: E402
from replaying import end_failures_with  # noqa: E402

PARTITIONS = 6
SETTLE_S = 60.0
WRITES_BACK_S = 30.0
FROZEN_S = 4.0
SILENT_S = 3.0
STUCK_S = 20.0
TIMED_OUT_S = 7.9
"""A little less than the `transaction.timeout.ms` of the copy."""

ROLES = ("leader", "follower", "controller")
ACTS = ("kill", "freeze", "cut", "restart")
# What is said to take no longer, in seconds, at the settings that `ottla start --nodes` writes.
PROMISED = {"kill leader": 3.0, "restart leader": 0.5}


def deck() -> list[tuple[str, str]]:
    cards = [(act, role) for act in ACTS for role in ROLES]
    return [*cards, ("silence", "follower"), ("rolling restart", "all")]


class ClusterStory:
    def __init__(
        self, cluster: ThreeNodes, folder: Path, seed: int, say: Callable[[str], None]
    ) -> None:
        self.cluster, self.folder, self.seed, self.say = cluster, folder, seed, say
        self.chance = random.Random(seed)
        self.gaps: dict[str, list[float]] = {}
        self.given_up: list[str] = []
        self.acked_path = folder / "acked"
        self.feed: subprocess.Popen[bytes] | None = None
        self.copies = [Child(folder, "copy-0", self._copy_command)]
        self.confluent = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})

    @property
    def address(self) -> str:
        return self.cluster.address

    def _copy_command(self, path: Path, seed: str) -> list[str]:
        return [
            *(sys.executable, str(HERE.parent / "faults" / "copy_process.py")),
            *(self.address, SOURCE, TARGET, str(PARTITIONS), GROUP),
            *("copy-0", str(path), f"{self.seed}.{seed}"),
            *(f"{key}={value}" for key, value in CLASSIC.items()),
        ]

    # The acts.

    def play(self, rounds: int, seconds: float | None = None) -> dict[str, Any]:
        """So many rounds, or as many as begin within so many seconds."""
        started = time.monotonic()
        self._create_topics()
        live = [LiveReader(self.address, topic, PARTITIONS) for topic in (SOURCE, TARGET)]
        try:
            self._start_clients()
            played = self._rounds(rounds, started, seconds)
            self._end_feed()
            found = check(self, live)
        except BaseException:
            self.say(f"seed {self.seed} failed; notes and logs in {self.folder}")
            raise
        finally:
            for reader in live:
                reader.stop()
            self._remove_all()
        return {
            "seed": self.seed,
            "seconds": round(time.monotonic() - started, 1),
            "rounds": played,
            "without_service_s": self.without_service(),
            "given_up": self.given_up,
            **found,
        }

    def _create_topics(self) -> None:
        topics = [NewTopic(name, PARTITIONS, len(NODES)) for name in (SOURCE, TARGET)]
        for done in self.confluent.create_topics(topics).values():
            done.result(30)

    def _start_clients(self) -> None:
        with (self.folder / "feed.output").open("wb") as output:
            self.feed = subprocess.Popen(
                [
                    *(sys.executable, str(HERE / "steady_feed.py")),
                    *(self.address, SOURCE, str(PARTITIONS), str(self.acked_path)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        for copy in self.copies:
            copy.start()
        self.await_settled()

    def _rounds(self, rounds: int, started: float, seconds: float | None) -> int:
        cards: list[tuple[str, str]] = []
        for number in range(rounds):
            if seconds is not None and time.monotonic() - started > seconds:
                return number
            if not cards:
                cards = deck()
                self.chance.shuffle(cards)
            act, role = cards.pop()
            self._round(number, act, role)
        return rounds

    def _round(self, number: int, act: str, role: str) -> None:
        time.sleep(self.chance.uniform(0.2, 0.8))
        name = act if role == "all" else f"{act} {role}"
        began = time.time()
        if act == "rolling restart":
            self._rolling_restart()
        else:
            node = self.cluster.nodes[self._find(role)]
            getattr(self, f"_{act}")(node)
        self.await_settled()
        gap = longest_gap(read_acked(self.acked_path), began - 0.2, time.time())
        self.gaps.setdefault(name, []).append(gap)
        self.say(f"round {number + 1:3}: {name}: {gap:.2f} s without service")

    def _kill(self, node: ClusterNode) -> None:
        node.kill()
        self._await_writes()
        self.cluster.start(node.number)

    def _freeze(self, node: ClusterNode) -> None:
        node.freeze()
        time.sleep(self.chance.choice((0.3, FROZEN_S)))
        node.thaw()

    def _cut(self, node: ClusterNode) -> None:
        for _ in range(self.chance.randint(1, 3)):
            for proxy in node.proxies:
                proxy.cut()
            time.sleep(self.chance.uniform(0.0, 0.2))

    def _silence(self, node: ClusterNode) -> None:
        """Nothing reaches it, while it can reach the others and says that it is well."""
        for proxy in node.proxies:
            proxy.stall()
        time.sleep(SILENT_S)
        for proxy in node.proxies:
            proxy.heal()
            proxy.cut()

    def _restart(self, node: ClusterNode) -> None:
        self.cluster.stop(node.number)
        self._await_writes()
        self.cluster.start(node.number)

    def _rolling_restart(self) -> None:
        for number in NODES:
            self.cluster.stop(number)
            self.cluster.start(number)
            self.await_settled()

    # Who is who.

    def _find(self, role: str) -> int:
        if role == "controller":
            return self._controller()
        counts = dict.fromkeys(NODES, 0)
        for partition in self._partitions(SOURCE).values():
            counts[partition.leader] += 1
        order = sorted(NODES, key=lambda number: (counts[number], self.chance.random()))
        return order[-1] if role == "leader" else order[0]

    def _controller(self) -> int:
        with Admin(bootstrap_servers=self.address) as admin:
            leader: int = admin.describe_metadata_quorum().leader
        return leader

    def _partitions(self, topic: str) -> dict[int, Any]:
        found: dict[int, Any] = (
            self.confluent.list_topics(topic, timeout=20).topics[topic].partitions
        )
        return found

    # Waiting, always with an end.

    def _await_writes(self) -> None:
        """Every partition acknowledges again what was sent after this moment."""
        mark = time.time()
        self._await(lambda: self._silent_since(mark), WRITES_BACK_S)

    def await_settled(self) -> None:
        """All copies are in sync, writes are acknowledged, and the copy commits."""
        self._await(self._out_of_sync, SETTLE_S)
        mark, committed = time.time(), self._committed()
        self._await(lambda: self._silent_since(mark), SETTLE_S)
        self._await(
            lambda: None if self._committed() > committed else "the copy does not commit", SETTLE_S
        )

    def _await(self, missing: Callable[[], str | None], within_s: float) -> None:
        last: list[str | None] = [None]

        def holds() -> bool:
            self.replace_the_ended(self.copies)
            assert self.feed is not None
            assert self.feed.poll() is None, (self.folder / "feed.output").read_text()
            last[0] = missing()
            return last[0] is None

        await_true(holds, lambda: f"{last[0]} (seed {self.seed}, in {self.folder})", within_s)

    def _silent_since(self, mark: float) -> str | None:
        acked = {one.partition for one in last_acked(self.acked_path) if one.at > mark}
        silent = set(range(PARTITIONS)) - acked
        return f"no acknowledgement from partitions {sorted(silent)}" if silent else None

    def _out_of_sync(self) -> str | None:
        try:
            topics = self.confluent.list_topics(timeout=5).topics.values()
        except Exception as error:
            return f"no metadata: {error}"
        for topic in topics:
            for number, one in topic.partitions.items():
                if one.leader < 0 or set(one.isrs) != set(one.replicas):
                    return f"{topic.topic}-{number} led by {one.leader}, in sync on {one.isrs}"
        return None

    def _committed(self) -> int:
        return sum(copy.said("committed") for copy in self.copies)

    def replace_the_ended(self, children: list[Child]) -> None:
        """The copy may end by itself after an error that it cannot mend; it begins anew. So does
        one that is stuck: librdkafka (2.16) goes on waiting for a group coordinator that has left
        the metadata, as a broker that stops does, and asks nobody for another one. Its successor
        has to get on, or the story fails."""
        for child in children:
            if silent_for_s(child) > STUCK_S:
                self.given_up.append(f"{child.name}: stuck after {child.last_word()!r}")
                child.kill()
                child.start()
            if child.ended():
                notes = read_notes(child.paths[-1])
                output = child.paths[-1].with_suffix(".output").read_text()[-1000:]
                reason = why_it_ended(notes)
                assert reason, f"{child.name} ended by itself: {notes[-3:]} {output}"
                self.given_up.append(f"{child.name}: {reason}")
                child.start()

    # Ending.

    def _end_feed(self) -> None:
        assert self.feed is not None
        self.feed.terminate()
        assert self.feed.wait(90) == 0, (self.folder / "feed.output").read_text()

    def end_copies(self) -> None:
        for copy in self.copies:
            assert copy.process is not None
            copy.process.terminate()
            assert copy.process.wait(40) == 0, copy.notes()[-1]

    def _remove_all(self) -> None:
        for copy in self.copies:
            copy.kill()
        if self.feed is not None and self.feed.poll() is None:
            self.feed.kill()
            self.feed.wait()

    def without_service(self) -> dict[str, tuple[int, float, float]]:
        """By kind of fault: how often, the median and the longest."""
        return {
            name: (len(gaps), round(statistics.median(gaps), 2), round(max(gaps), 2))
            for name, gaps in sorted(self.gaps.items())
        }

    def broken_promises(self) -> list[str]:
        return [
            f"{name}: {max(self.gaps[name]):.2f} s without service, promised {limit:g} s"
            for name, limit in PROMISED.items()
            if name in self.gaps and max(self.gaps[name]) > limit
        ]


def silent_for_s(child: Child) -> float:
    """Since its last note, if it lives and has made one."""
    path = child.paths[-1]
    if child.process is None or not path.exists():
        return 0.0
    return time.time() - path.stat().st_mtime


def why_it_ended(notes: list[dict[str, Any]]) -> str | None:
    """What it said, if that is no fault of the cluster. There is no second instance to fence it,
    but a transaction that outlasts its time is fenced, too: librdkafka (2.16) may wait for its own
    messages in `abort_transaction` for as long as that, after their leader was replaced."""
    for note in reversed(notes):
        if note["what"] == "given up":
            return str(note["value"])
        if note["what"] == "fenced":
            begun = max(one["at"] for one in notes if one["what"] == "begin")
            return "its transaction timed out" if note["at"] - begun > TIMED_OUT_S else None
    return None


def last_acked(path: Path, count_bytes: int = 1 << 16) -> list[Acked]:
    """The end of the notes: reading all of them again and again would be the heaviest load here."""
    if not path.exists():
        return []
    with path.open("rb") as notes:
        notes.seek(0, 2)
        notes.seek(max(0, notes.tell() - count_bytes))
        lines = notes.read().decode().split("\n")[1:-1]
    found = []
    for line in lines:
        at, partition, offset, key, number = line.split()
        found.append(Acked(float(at), int(partition), int(offset), key, int(number)))
    return found


def longest_gap(acked: list[Acked], begin: float, end: float) -> float:
    """The longest time within which some partition acknowledged nothing."""
    last = dict.fromkeys(range(PARTITIONS), begin)
    longest = 0.0
    for one in sorted(acked):
        if one.at < begin:
            last[one.partition] = one.at
        elif one.at <= end:
            longest = max(longest, one.at - last[one.partition])
            last[one.partition] = one.at
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description="A cluster under faults.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="kept; by default a new one")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ottla-cluster-faults-"))
    print(f"seed {seed}, {options.rounds} rounds, in {folder}", flush=True)
    replay = f"make soak-cluster ROUNDS={options.rounds} SEED={seed}"
    end_failures_with(replay)
    with ThreeNodes(folder, CLUSTER_OPTIONS) as cluster:
        story = ClusterStory(cluster, folder, seed, lambda line: print(line, flush=True))
        for key, value in story.play(options.rounds).items():
            if isinstance(value, dict):
                print(f"{key}:")
                for name, one in value.items():
                    print(f"  {name}: {one}")
            else:
                print(f"{key}: {value}")
        if broken := story.broken_promises():
            sys.exit("\n".join([*broken, f"replay it with: {replay}"]))


CLUSTER_OPTIONS = {
    **BROKER_OPTIONS,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Leaders come back to where they were soon, so that each round finds them spread.
    "leader.imbalance.check.interval.seconds": "2",
}

if __name__ == "__main__":
    main()
