"""The same transaction loops on three nodes of Kafka and of Ottla, and which errors clients see.

    python tests/interop/transaction_loops.py --transactions 10000 [--sides Ottla] [--seed N]
        [--scenarios commit abort] [--clients Java]

`--transactions` is the number of each scenario on each side, shared by Kafka's own producer (the
second protocol of transactions) and librdkafka (the first). Six producers with ids of their own
write one record to each partition, 24 in the first two scenarios, and end the transaction:

    commit      always with a commit
    abort       every second one is aborted after 0 to 2 ms, while its batches are on their way
    timeout     as abort, and one in 25 is committed after its transaction.timeout.ms
    shared      as abort, all to the same three partitions
    fenced      as abort, and before one in 25 is committed, a rival with the same id comes
    moved       as abort, while the partitions of __transaction_state get other leaders
    restarted   as abort, while one node after the other is restarted

Afterwards all that was committed can be read, and nothing holds readers back. The command fails if
that is not so, or if clients of Ottla saw a kind of error that those of Kafka did not see, or more
of it than chance explains.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE.parent, HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from bench.cluster_nodes import NODES, Trio  # noqa: E402
from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

import ottla  # noqa: E402
from broker_harness import fetch_kafka  # noqa: E402
from ottla.blocking import Admin  # noqa: E402
from ottla.client.admin.offsets import OffsetSpec  # noqa: E402
from ottla.client.network.leaders import all_or_raise  # noqa: E402
from replaying import end_failures_with  # noqa: E402

SCENARIOS = ("commit", "abort", "timeout", "shared", "fenced", "moved", "restarted")
CLIENTS = ("Java", "librdkafka")
EXPECTED = {"timeout": "late ", "fenced": "fenced "}
"""Scenario -> how the steps begin that are made to fail."""
PRODUCERS = 6
PARTITIONS = 24
FEW_PARTITIONS = {"timeout": 6, "shared": 3, "fenced": 6, "moved": 6, "restarted": 6}
OPTIONS = {
    "transaction.state.log.num.partitions": "6",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Leaders move where a scenario moves them, not because this machine is busy.
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "18000",
}
TIMEOUT_MS = 5000
MOVE_INTERVAL_S = 3.0
RESTART_INTERVAL_S = 5.0
READ_TIMEOUT_S = 60.0
ROUND_MAX = 150
"""Transactions of a producer in one process: each fatal error costs librdkafka a new producer, and
a process cannot have more than 1,024 of them in its life."""
WAITED_S_MAX = 15.0
"""Somebody waited half a minute for nothing if a loop takes longer than Kafka's by more."""


@dataclass
class Outcome:
    """What one client saw in one scenario."""

    committed: int = 0
    aborted: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    unread: str = ""
    """What is wrong with what can be read afterwards, if anything."""
    said: str = field(default="", repr=False)

    def add(self, later: Outcome) -> None:
        self.committed += later.committed
        self.aborted += later.aborted
        self.errors = dict(Counter(self.errors) + Counter(later.errors))
        self.said += later.said

    def unexpected(self, scenario: str) -> dict[str, int]:
        made = EXPECTED.get(scenario)
        return {
            kind: count
            for kind, count in self.errors.items()
            if made is None or not kind.startswith(made)
        }


# --- one loop -----------------------------------------------------------------------------------


def compile_java(libs: Path, folder: Path) -> list[str]:
    source = str(HERE / "java" / "TransactionLoops.java")
    subprocess.run(
        ["javac", "-cp", f"{libs}/*", "-d", str(folder), source], check=True, timeout=120
    )
    fast = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return ["java", *fast, "-cp", f"{folder}:{libs}/*", "TransactionLoops"]


def run_loop(
    command: Sequence[str], trio: Trio, scenario: str, topic: str, transactions: int, seed: int
) -> Outcome:
    """Blocks until all `transactions` of a scenario are through, and checks what can be read."""
    partitions = FEW_PARTITIONS.get(scenario, PARTITIONS)
    settings = [f"transaction.timeout.ms={TIMEOUT_MS if scenario == 'timeout' else 60_000}"]
    each = -(-transactions // PRODUCERS)
    create(trio, topic, partitions)
    outcome = Outcome()
    started = time.monotonic()
    with disturbing(trio, scenario):
        for first in range(0, each, ROUND_MAX):
            count = min(ROUND_MAX, each - first)
            words = [trio.address, topic, str(partitions), scenario, str(PRODUCERS)]
            outcome.add(run_round([*command, *words, str(count), str(seed + first), *settings]))
    outcome.seconds = time.monotonic() - started
    outcome.unread = check_read(trio, topic, partitions, outcome)
    return outcome


def run_round(command: Sequence[str]) -> Outcome:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]), said=done.stderr)


def create(trio: Trio, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": trio.address, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, len(NODES))])[topic].result(30)


def check_read(trio: Trio, topic: str, partitions: int, outcome: Outcome) -> str:
    """All that was committed can be read; what ended in an error may be there too."""
    reader = Consumer(
        {
            "bootstrap.servers": trio.address,
            "group.id": f"check-{topic}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    with Admin(bootstrap_servers=trio.address) as admin:
        places = [ottla.TopicPartition(topic, index) for index in range(partitions)]
        found = all_or_raise(admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)))
    ends = {place.partition: offset.offset for place, offset in found.items()}
    counts = dict.fromkeys(ends, 0)
    read_to: dict[int, int] = {}
    deadline = time.monotonic() + READ_TIMEOUT_S
    while any(read_to.get(index, 0) < end for index, end in ends.items()):
        if time.monotonic() > deadline:
            reader.close()
            return f"readers of committed records are held back at {read_to}, the ends are {ends}"
        for message in reader.consume(5000, 0.5):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None
                counts[partition] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                assert partition is not None
                assert offset is not None
                read_to[partition] = offset
    reader.close()
    most = outcome.committed + sum(outcome.errors.values())
    wrong = {index: n for index, n in counts.items() if not outcome.committed <= n <= most}
    return f"read {wrong} of {outcome.committed} to {most} a partition" if wrong else ""


# --- what happens meanwhile -----------------------------------------------------------------------


@contextmanager
def disturbing(trio: Trio, scenario: str) -> Iterator[None]:
    acts = {
        "moved": (move_coordinators, MOVE_INTERVAL_S),
        "restarted": (restart, RESTART_INTERVAL_S),
    }
    if scenario not in acts:
        yield
        return
    act, interval_s = acts[scenario]
    over = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        rounds = 0
        try:
            while not over.wait(interval_s):
                act(trio, rounds)
                rounds += 1
        except BaseException as failure:
            failures.append(failure)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()
    if failures:
        raise failures[0]


def move_coordinators(trio: Trio, rounds: int) -> None:
    """Every partition of `__transaction_state` gets the next node as its leader."""
    with Admin(bootstrap_servers=trio.address) as admin:
        topic = admin.describe_topics(["__transaction_state"])["__transaction_state"]
        assert not isinstance(topic, ottla.KafkaError), topic
        wanted = {}
        for index, partition in enumerate(topic.partitions):
            first = (
                (NODES.index(partition.leader) + 1) % len(NODES) if partition.leader in NODES else 0
            )
            place = ottla.TopicPartition("__transaction_state", index)
            wanted[place] = [*NODES[first:], *NODES[:first]]
        admin.alter_partition_reassignments(wanted)
        admin.elect_leaders(list(wanted))


def restart(trio: Trio, rounds: int) -> None:
    number = NODES[rounds % len(NODES)]
    trio.stop(number)
    trio.start(number)
    with Admin(bootstrap_servers=trio.address) as admin:
        wait_in_sync(admin)


def wait_in_sync(admin: Any) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        topics = admin.describe_topics()
        if all(len(one.isr) == len(NODES) for topic in topics.values() for one in topic.partitions):
            return
        time.sleep(0.2)
    raise TimeoutError("a restarted node is not in sync again within 60 s")


# --- sides --------------------------------------------------------------------------------------


def run_side(
    libs: Path | None,
    commands: Mapping[str, Sequence[str]],
    scenarios: Sequence[str],
    transactions: int,
    seed: int,
    tell: Callable[[str], object],
) -> dict[tuple[str, str], Outcome]:
    """(scenario, client) -> what was seen."""
    outcomes = {}
    each = -(-transactions // len(commands))
    with (
        tempfile.TemporaryDirectory(prefix="transaction-loops-") as folder,
        Trio(Path(folder), libs, OPTIONS) as trio,
    ):
        for scenario in scenarios:
            for client, command in commands.items():
                topic = f"{scenario}-{client}".lower()
                outcome = run_loop(command, trio, scenario, topic, each, seed)
                outcomes[scenario, client] = outcome
                tell(f"{trio.name}, {scenario}, {client}: {outcome}")
                if outcome.unexpected(scenario):
                    tell(outcome.said)
    return outcomes


def chance_explains(ours: int, theirs: int) -> bool:
    """Whether two counts of rare events differ by less than three standard deviations."""
    deviation: float = (ours + theirs) ** 0.5
    return ours <= theirs + 3 * deviation


def table(sides: Mapping[str, Mapping[tuple[str, str], Outcome]]) -> str:
    lines = ["| scenario | client | side | committed | aborted | errors | s |", "|" + "---|" * 7]
    for key in dict.fromkeys(key for side in sides.values() for key in side):
        for name, side in sides.items():
            if (one := side.get(key)) is not None:
                kinds = [f"{kind} x {count}" for kind, count in sorted(one.errors.items())]
                errors = "; ".join([", ".join(kinds) or "none", *filter(None, [one.unread])])
                cells = [*key, name, one.committed, one.aborted, errors, round(one.seconds)]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def faults(sides: Mapping[str, Mapping[tuple[str, str], Outcome]]) -> list[str]:
    found = []
    for key, ours in sides.get("Ottla", {}).items():
        if ours.unread:
            found.append(f"Ottla, {key}: {ours.unread}")
        theirs = sides.get("Kafka", {}).get(key)
        if theirs is not None and ours.seconds > 2 * theirs.seconds + WAITED_S_MAX:
            found.append(f"{key}: {ours.seconds:.0f} s, on Kafka {theirs.seconds:.0f} s")
        for kind, count in ours.errors.items():
            if theirs is None:
                if kind in ours.unexpected(key[0]):
                    found.append(f"Ottla, {key}: {kind} x {count}")
            elif not chance_explains(count, theirs.errors.get(kind, 0)):
                found.append(f"{key}: {kind} x {count}, on Kafka x {theirs.errors.get(kind, 0)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument(
        "--sides", nargs="+", choices=("Kafka", "Ottla"), default=("Kafka", "Ottla")
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    given = parser.parse_args()
    end_failures_with(f"make txn-diff TRANSACTIONS={given.transactions} SEED={given.seed}")
    libs = fetch_kafka.find()
    if libs is None:
        print("no Apache Kafka jars: run scripts/fetch_kafka.py", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="transaction-loops-") as folder:
        commands = {
            "Java": compile_java(libs, Path(folder)),
            "librdkafka": [sys.executable, str(HERE / "rdkafka_loops.py")],
        }
        sides = {
            side: run_side(
                libs if side == "Kafka" else None,
                {client: commands[client] for client in given.clients},
                given.scenarios,
                given.transactions,
                given.seed,
                lambda line: print(line, file=sys.stderr, flush=True),
            )
            for side in given.sides
        }
    print(f"seed {given.seed}, {given.transactions} transactions of each scenario")
    print(table(sides))
    found = faults(sides)
    print("\n".join(found) or "no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
