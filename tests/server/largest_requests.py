"""Each served API, asked for as much as it allows, and how long a broker's loop is held by it.

Requests are made from the declarations of the messages: for each array that a request has, one that
is as long as it may be. So an API that is served tomorrow is tried without a line here. As a
command, with everything at its maximum:

    python tests/server/largest_requests.py [--elements 100000] [API ...]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import wire

import ottla.testing
from ottla.broker.server.contract import BROKERS, CONTROLLERS, served_on
from ottla.broker.server.envelopes.format import address_bytes, principal_bytes
from ottla.broker.server.pieces import elements_max
from ottla.protocol.apis import FORWARDABLE, ApiKey, api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.schema import Field, Struct
from ottla.protocol.source import element_kind
from ottla.runtime.collector import settle
from ottla.runtime.os_memory import bound_kept_memory
from ottla.security.principal import ANONYMOUS
from ottla.testing.thread_cluster import Cluster

TOPIC = "wide"
PARTITIONS = 1_000
GROUP = "committed"
ANSWER_TIMEOUT_S = 60.0
SETTLE_S = 0.05
NODES = {BROKERS: 1, CONTROLLERS: 3}
"""How many nodes: a single one has no listener of controllers."""

T = TypeVar("T")
Path_ = tuple[str, ...]


class Longest(NamedTuple):
    """One request, and the most CPU time that one turn of the broker's loop took meanwhile."""

    name: str
    request_bytes: int
    response_bytes: int
    seconds: float
    turn_ms: float
    garbage: int = 0
    """Objects that only the collector of garbage could free: with an answer among them, it looks
    at all of that, in one go."""

    def __str__(self) -> str:
        answer = f"{self.response_bytes:>10,}" if self.response_bytes else "   refused"
        return (
            f"{self.name:<76} {self.request_bytes:>10,} B {answer} B "
            f"{self.seconds:7.2f} s  longest turn {self.turn_ms:6.1f} ms"
        )


# --- requests -------------------------------------------------------------------------------


class Filler:
    """Fills a request, by the declarations of its fields."""

    def __init__(self, version: int, *, known: bool, topic_id: bytes) -> None:
        self._version = version
        self._known = known
        self._topic_id = topic_id

    def struct(self, cls: type[Struct], long: Path_, count: int, number: int = 0) -> Any:
        """`long`: the path of the array that gets `count` elements; others get one or none."""
        made = cls()
        for field in cls.FIELDS:
            if not field.exists_in(self._version) or field.kind == "records":
                continue
            on_path = bool(long) and field.name == long[0]
            if field.kind == "array":
                length = count if on_path and len(long) == 1 else 1
                if not on_path and field.nullable_in(self._version):
                    setattr(made, field.name, None)
                    continue
                inner = long[1:] if on_path else ()
                setattr(made, field.name, self._array(field, inner, count, length, number))
            elif field.kind == "struct":
                continue
            else:
                setattr(made, field.name, self._value(field, field.kind, number))
        return made

    def _array(self, field: Field, long: Path_, count: int, length: int, number: int) -> list[Any]:
        # Inside one of many elements, what else there is should not be the same in all of them.
        numbers = [number] if length == 1 else range(length)
        if field.struct_class is not None:
            return [self.struct(field.struct_class, long, count, n) for n in numbers]
        return [self._value(field, element_kind(field), n) for n in numbers]

    def _value(self, field: Field, kind: str, number: int) -> Any:
        name = field.name
        if kind == "string":
            return self._string(name, number)
        if kind == "bool":
            return name in ("validate_only", "include_synonyms", "include_documentation")
        if kind == "uuid":
            return self._topic_id if self._known else number.to_bytes(16, "big")
        if kind == "bytes":
            return b"x"
        if name in ("partition_index", "partition", "index", "partition_id", "partitions"):
            return number % PARTITIONS if self._known else number
        if name == "partition_indexes":
            return number % PARTITIONS if self._known else number
        if name in ("fetch_offset", "replica_id"):
            return -1 if name == "replica_id" else 0
        if name == "partition_max_bytes":
            return 1 << 20
        if name in ("min_bytes", "max_bytes"):
            return 1 if name == "min_bytes" else 50 << 20
        if name == "current_leader_epoch":
            return -1
        if name == "resource_type":
            return 2 if self._known else 4
        if name in ("max_wait_ms", "max_wait_time", "timeout_ms"):
            return 10
        if name in ("num_partitions", "replication_factor"):
            return 1
        return field.default if isinstance(field.default, int) and field.default else number % 100

    def _string(self, name: str, number: int) -> str:
        if self._known:
            if name in ("topic", "name", "topic_name"):
                return TOPIC
            if name in ("group_id", "groups", "group_ids", "groups_names"):
                return GROUP
        return f"unknown-{name}-{number}"


def array_paths(cls: type[Struct], version: int) -> Iterator[Path_]:
    for field in cls.FIELDS:
        if field.kind == "array" and field.exists_in(version):
            yield (field.name,)
            if field.struct_class is not None:
                for path in array_paths(field.struct_class, version):
                    yield (field.name, *path)


def weight(struct: Struct) -> int:
    total = 0
    for field in struct.FIELDS:
        if field.kind == "array":
            for element in getattr(struct, field.name) or ():
                total += 1 + (weight(element) if isinstance(element, Struct) else 0)
    return total


def requests_of(
    key: ApiKey, version: int, elements: int, topic_id: bytes, kind: str = BROKERS
) -> Iterator[tuple[str, Any]]:
    """Requests of about `elements` elements in all, or as many as the API allows."""
    if key is ApiKey.ENVELOPE:
        yield from _enveloped(elements, topic_id)
        return
    allowed = min(elements, elements_max(key, of_quorum=kind == CONTROLLERS))
    cls = api(key).request_class()
    paths = list(array_paths(cls, version)) or [()]
    for path in paths:
        for known in (False, True):
            filler = Filler(version, known=known, topic_id=topic_id)
            around = weight(filler.struct(cls, path, 0))
            each = weight(filler.struct(cls, path, 1)) - around
            count = (allowed - around) // max(each, 1) if path else 0
            title = f"{api(key).name} v{version} {'.'.join(path) or '-'} x {count}"
            title += " (existing)" if known else ""
            request = filler.struct(cls, path, count)
            if key is ApiKey.PRODUCE:
                _fill_records(request)
            yield title, request


def _enveloped(elements: int, topic_id: bytes) -> Iterator[tuple[str, Any]]:
    """The largest requests of each API that can be forwarded, in envelopes."""
    for key in sorted(served_on(CONTROLLERS) & FORWARDABLE):
        version = api(key).latest_stable
        for title, request in requests_of(key, version, elements, topic_id, CONTROLLERS):
            envelope = EnvelopeRequest(
                request_data=frame_of(request, version)[4:],
                request_principal=principal_bytes(ANONYMOUS),
                client_host_address=address_bytes("127.0.0.1"),
            )
            del request
            yield f"Envelope of {title}", envelope


def _fill_records(request: Any) -> None:
    request.acks = -1
    request.transactional_id = None
    data = memoryview(wire.batch([b"x"]))
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = data


def frame_of(request: Any, version: int) -> bytes:
    key = api(ApiKey(request.API_KEY))
    chunks = encoder(type(request), version)(request)
    frame = frame_request(key.key, version, 1, "largest", chunks)
    return b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]  # no slices


# --- asking and measuring -------------------------------------------------------------------


class Meter:
    """Runs in the broker's loop, in every turn, and keeps the longest. CPU time, so that a busy
    machine does not count."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._running = True

    async def run(self) -> None:
        last = time.thread_time()
        while self._running:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now

    def stop(self) -> None:
        self._running = False


class Garbage:
    """Counts what the collector frees."""

    def __init__(self) -> None:
        self._count = 0
        gc.callbacks.append(self._look)

    def _look(self, phase: str, info: dict[str, int]) -> None:
        self._count += info["collected"] if phase == "stop" else 0

    def counted(self) -> int:
        gc.collect()
        gc.callbacks.remove(self._look)
        return self._count


class Probe:
    """The active controller of a cluster, which is a broker too, and its ports."""

    def __init__(self, cluster: Cluster) -> None:
        bound_kept_memory()  # as a broker does, this too:
        settle()
        self._thread = cluster._thread
        number = cluster.controller or 1
        node = self._thread.look(lambda: self._thread.group._started()[number])
        listeners = self._thread.look(lambda: list(node.server._listeners))
        self.ports = {one.kind: one.listener.address[1] for one in listeners}
        self._prepare()
        self.topic_id = self._thread.look(lambda: node.metadata.image.topics[TOPIC].id)
        self.node = node

    def _prepare(self) -> None:
        created = CreateTopicsRequest(
            topics=[CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)],
            timeout_ms=30_000,
        )
        assert self.ask(BROKERS, frame_of(created, 7))
        commit = OffsetCommitRequest(
            group_id=GROUP,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=n, committed_offset=n)
                        for n in range(PARTITIONS)
                    ],
                )
            ],
        )
        deadline = time.monotonic() + 20
        if CONTROLLERS in self.ports:
            return  # nothing of what follows is served there
        self._produce()
        self.ask(BROKERS, frame_of(FindCoordinatorRequest(key=GROUP), 3))
        while self._commit(commit):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def _produce(self) -> None:
        """One record to each partition, so that reading them costs what it costs."""
        data = memoryview(wire.batch([b"x"]))
        partitions = [PartitionProduceData(index=n, records=data) for n in range(PARTITIONS)]
        topic = TopicProduceData(name=TOPIC, partition_data=partitions)
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        assert self.ask(BROKERS, frame_of(request, 9))

    def _commit(self, request: OffsetCommitRequest) -> int:
        answer = self.ask(BROKERS, frame_of(request, 8))
        assert answer is not None
        response, _ = decoder(OffsetCommitResponse, 8)(answer, 5)
        return response.topics[0].partitions[0].error_code

    def ask(self, kind: str, frame: bytes) -> bytes | None:
        """The answer; None if the connection was closed instead."""
        with socket.create_connection(("127.0.0.1", self.ports[kind])) as peer:
            peer.settimeout(ANSWER_TIMEOUT_S)
            try:
                peer.sendall(frame)
                size = _read(peer, 4)
                return _read(peer, struct.unpack(">i", size)[0])
            except ConnectionError:
                return None

    def look(self, read: Callable[[], T]) -> T:
        """Call `read` in the broker's loop."""
        return self._thread.look(read)

    def longest(self, kind: str, title: str, frame: bytes) -> Longest:
        gc.collect()
        garbage = Garbage()
        meter = Meter()
        done = self._thread.submit(meter.run)
        started = time.monotonic()
        answer = self.ask(kind, frame)
        took = time.monotonic() - started
        time.sleep(SETTLE_S)  # what is left to do after the answer counts too
        self._thread.look(meter.stop)
        done.result()
        turn_ms = meter.longest_s * 1000
        return Longest(title, len(frame), len(answer or b""), took, turn_ms, garbage.counted())


def _read(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = peer.recv(min(1 << 20, count - len(data)))
        if not more:
            raise ConnectionResetError
        data += more
    return bytes(data)


def measure(probe: Probe, kind: str, key: ApiKey, elements: int) -> Iterator[Longest]:
    version = api(key).latest_stable
    for title, request in requests_of(key, version, elements, probe.topic_id, kind):
        frame = frame_of(request, version)
        del request
        yield probe.longest(kind, f"{kind:<10} {title}", frame)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("apis", nargs="*", help="such as METADATA; all if none is named")
    options = parser.parse_args()
    wanted = {ApiKey[name.upper()] for name in options.apis} or set(ApiKey)
    worst: list[Longest] = []
    for kind, nodes in NODES.items():
        with ottla.testing.cluster(nodes=nodes) as cluster:
            probe = Probe(cluster)
            for key in sorted(wanted & served_on(kind)):
                for result in measure(probe, kind, key, options.elements):
                    print(result, flush=True)
                    worst.append(result)
    print("\nthe longest:")
    for result in sorted(worst, key=lambda r: -r.turn_ms)[:10]:
        print(result)


if __name__ == "__main__":
    main()
