"""A broker under attack, beside a normal client whose latency is measured.

Each attack is `(host, port, seconds) -> None`, runs in a process of its own and goes on until its
time is up, whatever the broker does. `make attack MINUTES=10` runs them in turn, against one node
and against three:

    python tests/faults/attacks.py [--minutes 10] [--nodes 1] [--slot 10] [ATTACK ...]

It prints the latencies of the normal client without and during each attack, and the memory of each
node before, at its peak, after each round of all attacks, and afterwards. "Before" is after a
warm-up in which each API and each codec was used on each node, by requests of ordinary size and
ones just large enough for the lane: code that is loaded when it is first used stays, and is no
leak. It ends with 1 if p99 or memory missed the goal.
"""

# ruff: noqa: E402  (what is imported lies beside this file or above it)

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
for _folder in (ROOT, ROOT / "tests" / "server", ROOT / "tests" / "faults"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

import largest_requests
from bench import process_tree, wire
from bench.brokers import HOST, Broker, Ottla
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker.server.contract import BROKERS, served_on
from ottla.broker.server.pieces import AT_ONCE_ELEMENTS_MAX
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

try:
    import attacks_records
except ImportError:  # pragma: no cover
    attacks_records = None  # type: ignore[assignment]

Attack = Callable[[str, int, float], None]

TOPIC: Final = "normal"
VICTIM: Final = "victim"
"""Where attackers write to."""
CODECS: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
GOAL_P99_S: Final = 0.050
GOAL_GROWTH: Final = 0.20
PAUSE_S: Final = 0.01
"""Between two rounds of the normal client."""
SETTLE_S: Final = 15.0
PATIENCE_S: Final = 30.0


# --- attacks --------------------------------------------------------------------------------


def _until(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def ask_again_and_again(port: int, seconds: float, frames: list[bytes]) -> None:
    """Each frame in turn; a connection that is closed is opened anew."""
    turn = cycle(frames)
    peer: wire.Peer | None = None
    for _ in _until(seconds):
        try:
            peer = peer or wire.Peer(port, PATIENCE_S)
            peer.send(next(turn))
            if peer.receive() is None:
                raise ConnectionResetError
        except OSError:
            if peer is not None:
                peer.close()
            peer = None
            time.sleep(0.01)
    if peer is not None:
        peer.close()


def unknown_names(host: str, port: int, seconds: float) -> None:
    """Metadata of as many topics as a request may name, none of which exists."""
    names = [f"no-such-topic-{number}" for number in range(100_000)]
    ask_again_and_again(port, seconds, [wire.metadata_frame(names)])


def too_many_names(host: str, port: int, seconds: float) -> None:
    """Metadata of more topics than a request may name."""
    names = [f"no-such-topic-{number}" for number in range(490_000)]
    ask_again_and_again(port, seconds, [wire.metadata_frame(names)])


def one_broker_described_often(host: str, port: int, seconds: float) -> None:
    """DescribeConfigs that names one broker 3,000 times."""
    frames = []
    for node in ("0", "1", "2", "3"):
        resources = [DescribeConfigsResource(resource_type=4, resource_name=node)] * 3_000
        request = DescribeConfigsRequest(
            resources=resources, include_synonyms=True, include_documentation=True
        )
        for resource in resources:
            resource.configuration_keys = None
        frames.append(largest_requests.frame_of(request, 4))
    ask_again_and_again(port, seconds, frames)


def answers_never_read(host: str, port: int, seconds: float) -> None:
    """A produce that waits for the disk, then request after request, and no answer is read."""
    produce = wire.produce_frame(VICTIM, 0, wire.batch([b"x" * 100]))
    metadata = wire.metadata_frame(None) * 100
    peers = [wire.Peer(port, 0.2) for _ in range(8)]
    for _ in _until(seconds):
        for peer in peers:
            with suppress(OSError):
                peer.send(produce + metadata)
        time.sleep(0.01)
    for peer in peers:
        peer.close()


def frames_never_finished(host: str, port: int, seconds: float) -> None:
    """Connections that announce 100 MB, send a part of it, and go away."""
    head = struct.pack(">ihhih", 100_000_000, 0, 9, 1, -1)
    junk = bytes(1 << 20)
    for _ in _until(seconds):
        peers = [wire.Peer(port, 1.0) for _ in range(8)]
        for peer in peers:
            with suppress(OSError):
                peer.send(head + junk * 2)
        time.sleep(0.2)
        for peer in peers:
            peer.close()


def large_batches(host: str, port: int, seconds: float) -> None:
    """Requests of 18 MB, as many partitions as that takes."""
    data = memoryview(wire.batch([os.urandom(900_000)]))
    partitions = [PartitionProduceData(index=n, records=data) for n in range(20)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=VICTIM, partition_data=partitions)],
    )
    frame = largest_requests.frame_of(request, 9)
    for _ in _until(seconds):
        ask_again_and_again(port, 0.5, [frame])
        time.sleep(0.5)  # the disk is not what this is about


def sessions_of_many_partitions(host: str, port: int, seconds: float) -> None:
    """A new fetch session of 19,000 partitions with each request."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=0,
        topics=[
            FetchTopic(
                topic=VICTIM,
                partitions=[
                    FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1)
                    for n in range(19_000)
                ],
            )
        ],
    )
    request.replica_id = -1
    ask_again_and_again(port, seconds, [largest_requests.frame_of(request, 12)])


def regular_expressions(host: str, port: int, seconds: float) -> None:
    """Subscriptions that would take a backtracking matcher for ever, or an automaton to build."""
    patterns = (
        "(a+)+$",
        "(a|aa)+$",
        "(.*a){20}",
        "((a{1,100}){1,100}){1,100}",
        "(x+x+)+y",
        "|".join(f"a{number}.*b" for number in range(2_000)),
        "(" * 200 + "a" + ")*" * 200,
        "[a-z]{1000}[0-9]{1000}",
    )
    frames = []
    for number, pattern in enumerate(patterns):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"attack-{number}",
            member_id=f"member-{random.getrandbits(64)}",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        frames.append(largest_requests.frame_of(request, 1))
    ask_again_and_again(port, seconds, frames)


def connections_come_and_go(host: str, port: int, seconds: float) -> None:
    """Connections in bursts of 100, some with half a request."""
    half = wire.metadata_frame(None)[:7]
    for _ in _until(seconds):
        peers: list[socket.socket] = []
        for number in range(100):
            with suppress(OSError):
                peer = socket.create_connection((HOST, port), 1.0)
                if number % 2:
                    peer.sendall(half)
                peers.append(peer)
        for peer in peers:
            peer.close()
        time.sleep(0.05)


def broken_frames(host: str, port: int, seconds: float) -> None:
    """Headers and messages that announce more than there is: tags, elements, lengths."""
    tags = struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\x07" + b"\x01\x00" * 1_000_000
    elements = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i", 2_000_000) + bytes(4_000_000)
    text = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">ih", 1, 32_000) + b"x"
    frames = [struct.pack(">i", len(data)) + data for data in (tags, elements, text)]
    ask_again_and_again(port, seconds, frames)


HARMFUL: Final = {
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}
"""Left out of `every_api`: they are for operators, and do what they are told."""


@cache
def _large_frames(elements: int) -> list[bytes]:
    frames = []
    for key in sorted(served_on(BROKERS) - HARMFUL):
        version = api(key).latest_stable
        for _, request in largest_requests.requests_of(key, version, elements, bytes(16)):
            frames.append(largest_requests.frame_of(request, version))
    return frames


def every_api(host: str, port: int, seconds: float) -> None:
    """Each API that is served, with thousands of elements in each of its arrays."""
    frames = list(_large_frames(20_000))
    random.shuffle(frames)
    ask_again_and_again(port, seconds, frames)


def small_requests_flood(host: str, port: int, seconds: float) -> None:
    """Small requests as fast as they are answered, pipelined on four connections."""
    burst = (wire.metadata_frame([TOPIC]) + wire.api_versions_frame()) * 20
    peers = [wire.Peer(port, PATIENCE_S) for _ in range(4)]
    for _ in _until(seconds):
        for peer in peers:
            peer.send(burst)
        for peer in peers:
            for _ in range(40):
                peer.receive()
    for peer in peers:
        peer.close()


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        unknown_names,
        too_many_names,
        one_broker_described_often,
        answers_never_read,
        frames_never_finished,
        large_batches,
        sessions_of_many_partitions,
        regular_expressions,
        connections_come_and_go,
        broken_frames,
        every_api,
        small_requests_flood,
    )
} | (attacks_records.ATTACKS if attacks_records is not None else {})


# --- the normal client ----------------------------------------------------------------------


class NormalClient(threading.Thread):
    """Produces a record with acks=all and reads it, a hundred times a second at most."""

    def __init__(self, connect: Callable[[], wire.Peer]) -> None:
        super().__init__(daemon=True)
        self.trouble: list[str] = []
        self._connect = connect
        self._done = threading.Event()
        self._phase = ""
        self._latencies: dict[str, list[float]] = {}

    def run(self) -> None:
        while not self._done.is_set():
            try:
                with self._connect() as writer, self._connect() as reader:
                    while not self._done.wait(PAUSE_S):
                        self._round(writer, reader)
            except (OSError, AssertionError) as error:
                self.trouble.append(f"during {self._phase}: {error!r}")
                self._done.wait(0.2)

    def _round(self, writer: wire.Peer, reader: wire.Peer) -> None:
        value = os.urandom(8)
        frame = wire.produce_frame(TOPIC, 0, wire.batch([value]))
        phase, started = self._phase, time.monotonic()
        sent = wire.parse_produce(writer.ask(frame))
        assert sent.error == 0, f"produce: error {sent.error}"
        got = wire.parse_fetch(reader.ask(wire.fetch_frame(TOPIC, 0, sent.base_offset)))
        assert got.error == 0, f"fetch: error {got.error}"
        assert value in got.records, "the record is not there"
        self._latencies.setdefault(phase, []).append(time.monotonic() - started)

    def enter(self, phase: str) -> None:
        self._phase = phase

    def latencies(self, *phases: str) -> list[float]:
        return sorted(x for phase in phases for x in self._latencies.get(phase, ()))

    def finish(self) -> None:
        self._done.set()
        self.join(PATIENCE_S)


def quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


# --- one run --------------------------------------------------------------------------------


class OttlaNodes(Ottla):
    """`ottla start --nodes N`."""

    def __init__(self, folder: Path, count: int, options: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, options)
        self._count = count

    def command(self) -> list[str]:
        return [*super().command(), *(["--nodes", str(self._count)] if self._count > 1 else [])]

    @property
    def node_pids(self) -> list[int]:
        if self._count == 1:
            return [self.pid]
        return sorted(pid for pid in process_tree.pids(self.pid) if _is_node(pid))


def _is_node(pid: int) -> bool:
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"start" in line and b"--nodes" not in line


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class Outcome:
    def __init__(self, client: NormalClient, phases: list[str]) -> None:
        self.calm = client.latencies("calm")
        self.attacked = client.latencies(*dict.fromkeys(phases))
        self.by_attack = {phase: client.latencies(phase) for phase in dict.fromkeys(phases)}
        self.trouble = client.trouble
        self.memory: list[tuple[int, int, int]] = []
        """Bytes before, at the peak and after, of each node."""
        self.rounds: list[list[int]] = []
        """Bytes of each node after each round of all attacks."""

    @property
    def p99_s(self) -> float:
        return quantile(self.attacked, 0.99)

    @property
    def growth(self) -> float:
        return max(after / before - 1 for before, _, after in self.memory)

    def report(self) -> str:
        lines = [line("without attack", self.calm)]
        lines += [line(name, values) for name, values in self.by_attack.items()]
        lines.append(line("all attacks", self.attacked))
        for number, (before, peak, after) in enumerate(self.memory, 1):
            rounds = " ".join(f"{node[number - 1] / 2**20:.1f}" for node in self.rounds)
            lines.append(
                f"memory of node {number}: {before / 2**20:.1f} MB after the warm-up, "
                f"{peak / 2**20:.1f} MB at the peak, {after / 2**20:.1f} MB after "
                f"({after / before - 1:+.0%}); after each round: {rounds or '-'}"
            )
        lines += [f"the normal client failed {len(self.trouble)} times"] if self.trouble else []
        lines += self.trouble[:5]
        lines.append("load of the machine: " + " ".join(f"{x:.1f}" for x in os.getloadavg()))
        return "\n".join(lines)


def line(name: str, values: list[float]) -> str:
    p50, p99 = quantile(values, 0.5) * 1000, quantile(values, 0.99) * 1000
    worst = values[-1] * 1000 if values else float("nan")
    return (
        f"{name:<30} {len(values):>7} rounds   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   "
        f"worst {worst:7.1f} ms"
    )


def run(
    folder: Path,
    *,
    nodes: int,
    seconds: float,
    slot_s: float,
    names: list[str],
    settle_s: float = SETTLE_S,
    say: Callable[[str], object] = print,
    niceness: int = 0,
) -> Outcome:
    broker = OttlaNodes(folder, nodes)
    broker.start()
    try:
        ports = prepare(AdminClient({"bootstrap.servers": broker.address}), nodes)
        client = NormalClient(lambda: wire.Peer(ports[0], PATIENCE_S))
        client.enter("warm-up")
        client.start()
        _warm_up(broker, ports)
        time.sleep(settle_s)
        pids = broker.node_pids
        for pid in (0, *pids):
            os.setpriority(os.PRIO_PROCESS, pid, niceness)
        before = [memory_bytes(pid) for pid in pids]
        client.enter("calm")
        time.sleep(max(2.0, seconds / 10))
        phases, rounds = _attack_in_turn(client, ports, pids, seconds, slot_s, names, settle_s, say)
        client.enter("afterwards")
        time.sleep(settle_s)
        client.finish()
        outcome = Outcome(client, phases)
        outcome.rounds = rounds
        peaks = [memory_bytes(pid, "VmHWM") for pid in pids]
        after = [memory_bytes(pid) for pid in pids]
        outcome.memory = list(zip(before, peaks, after, strict=True))
        return outcome
    finally:
        broker.stop()


def prepare(admin: AdminClient, nodes: int) -> list[int]:
    """Topics; the ports of all nodes, first that of the leader of the normal client's topic."""
    copies = min(nodes, 3)
    small = {"flush.messages": "1", "retention.bytes": "20000000", "segment.bytes": "10000000"}
    for topic in (NewTopic(TOPIC, 1, copies), NewTopic(VICTIM, 20, copies, config=small)):
        admin.create_topics([topic])[topic.topic].result(60)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        described = admin.list_topics(TOPIC, timeout=PATIENCE_S)
        partition = described.topics[TOPIC].partitions.get(0)
        if partition is not None and len(partition.isrs) == copies:
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ports = {node.id: node.port for node in described.brokers.values()}
    leader = ports.pop(partition.leader)
    return [leader, *ports.values()]


def _warm_up(broker: Broker, ports: list[int]) -> None:
    """Code is loaded when it is first used, which is no leak; that for large requests, too."""
    for port in ports:
        for frame in (*_large_frames(20), *_large_frames(2 * AT_ONCE_ELEMENTS_MAX)):
            with suppress(OSError), wire.Peer(port, 2.0) as peer:
                peer.send(frame)
                peer.receive()
    for codec in CODECS:
        _recompress_to(codec, broker.address, len(ports))


def _recompress_to(codec: str, address: str, nodes: int) -> None:
    """Records of each codec to a compacted topic of another one, on each node; then a lookup."""
    topic = f"warm-up-{codec}"
    config = {"compression.type": codec, "cleanup.policy": "compact"}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, nodes, 1, config=config)])[topic].result(60)
    for source in CODECS:
        kind = "none" if source == "uncompressed" else source
        producer = Producer({"bootstrap.servers": address, "compression.type": kind})
        for number in range(nodes * 10):
            producer.produce(topic, b"value" * 100, str(number), partition=number % nodes)
        assert not producer.flush(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "warm-up"})
    moments = [TopicPartition(topic, number, 1) for number in range(nodes)]
    assert all(found.offset == 0 for found in consumer.offsets_for_times(moments, PATIENCE_S))
    consumer.close()


def _attack_in_turn(
    client: NormalClient,
    ports: list[int],
    pids: list[int],
    seconds: float,
    slot_s: float,
    names: list[str],
    settle_s: float,
    say: Callable[[str], object],
) -> tuple[list[str], list[list[int]]]:
    """The attacks that were made, and the memory of the nodes after each round of all of them."""
    phases: list[str] = []
    rounds: list[list[int]] = []
    end = time.monotonic() + seconds
    for name in cycle(names):
        if time.monotonic() >= end:
            break
        # The leader of the normal client has to bear most of it, the others in turn the rest.
        third, rest = divmod(len(phases), 3)
        port = ports[third % len(ports)] if rest == 2 else ports[0]
        phases.append(name)
        client.enter(name)
        _attack(name, port, slot_s)
        memory = " ".join(f"{memory_bytes(pid) >> 20}" for pid in pids)
        say(f"{line(name, client.latencies(name))}   memory {memory} MB")
        if len(phases) % len(names) == 0:
            client.enter("afterwards")
            time.sleep(settle_s)
            rounds.append([memory_bytes(pid) for pid in pids])
    return phases, rounds


def _attack(name: str, port: int, slot_s: float) -> None:
    command = [sys.executable, __file__, "--child", name, "--port", str(port)]
    child = subprocess.Popen([*command, "--seconds", str(slot_s)], preexec_fn=_be_nice)
    try:
        child.wait(slot_s + 2 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--slot", type=float, default=10, help="seconds of one attack")
    parser.add_argument(
        "--niceness",
        type=int,
        default=0,
        help="of the nodes and the normal client; below 0 (for root) where other work runs too",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("attacks", nargs="*", help=", ".join(ATTACKS))
    options = parser.parse_args()
    if options.child:
        ATTACKS[options.child](HOST, options.port, options.seconds)
        return 0
    names = options.attacks or list(ATTACKS)
    with tempfile.TemporaryDirectory(prefix="ottla-attack-") as folder:
        outcome = run(
            Path(folder) / "broker",
            nodes=options.nodes,
            seconds=options.minutes * 60,
            slot_s=options.slot,
            names=names,
            niceness=options.niceness,
        )
    print(f"\n{options.nodes} node(s), {options.minutes:g} minutes\n{outcome.report()}")
    goals = f"goals: p99 under {GOAL_P99_S * 1000:.0f} ms, memory within {GOAL_GROWTH:.0%}"
    missed = outcome.p99_s >= GOAL_P99_S or outcome.growth > GOAL_GROWTH
    print(f"{goals}: {'missed' if missed else 'met'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
