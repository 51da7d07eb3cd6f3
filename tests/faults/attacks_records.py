"""Attacks by records: poison for coordinators, batches that open to far more than they are.

Each attack is `(host, port, seconds) -> None` and uses nothing but its own connections, so that any
harness can run it beside a normal client. It raises only if the broker is not there at all.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import cramjam
from bench import wire

from ottla.protocol.apis import api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.headers import frame_request, read_response_header
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

Attack = Callable[[str, int, float], None]

ZSTD = 4
PATIENCE_S = 60.0
MANY_RECORDS = 13_000_000
BOMB_BYTES = 1 << 30
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


class Attacker:
    """One connection with a client id of its choice."""

    def __init__(self, host: str, port: int, client_id: str = "attacker") -> None:
        self._client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_S)

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Any, version: int) -> None:
        body = encoder(type(request), version)(request)
        frame = frame_request(request.API_KEY, version, 1, self._client_id, body)
        data = b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]  # no slices
        self._socket.sendall(data)

    def receive(self, request: Any, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        data = self._exactly(size)
        _, position = read_response_header(data, 0, request.API_KEY, version)
        return decoder(api(request.API_KEY).response_class(), version)(data, position)[0]

    def produce(self, topic: str, batch: bytes) -> int:
        """The error code of one batch to partition 0."""
        answer = self.ask(_produce(topic, batch), 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    def offset_at(self, topic: str, timestamp: int) -> int:
        """The first offset of that time in partition 0, or -1."""
        (found,) = self.ask(_offsets_at(topic, timestamp), 7).topics[0].partitions
        offset: int = found.offset
        assert not found.error_code, found
        return offset

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- poison for coordinators --------------------------------------------------------------------


def poison_internal_topics(host: str, port: int, seconds: float) -> None:
    """Records that no coordinator can read, as an ordinary client, which is refused, and with the
    one client id that is not."""
    records = [(b"\0\1", b"x"), (b"\0", b""), (b"\x7f\xff", b"\0" * 99)]
    payload = b"".join(wire.record(value, at, key) for at, (key, value) in enumerate(records))
    batch = wire.batch([b""] * len(records), payload=payload)
    _wake_coordinators(host, port)
    for client_id in _in_turn(seconds, ("attacker", "__admin_client")):
        with _survived(), Attacker(host, port, client_id) as attacker:
            for topic in INTERNAL_TOPICS:
                attacker.produce(topic, batch)


def unencodable_commits(host: str, port: int, seconds: float) -> None:
    """Commits and members that a record has no room for."""
    _wake_coordinators(host, port)
    with Attacker(host, port) as attacker:
        _create(attacker, "hostile", {})
    for client_id in _in_turn(seconds, ("attacker", "c" * 32_760)):
        with _survived(), Attacker(host, port, client_id) as attacker:
            attacker.ask(_commit("hostile", retention_ms=2**63 - 1), 2)
            attacker.ask(_commit("hostile", metadata="\u20ac" * 4096), 8)
            attacker.ask(_join("p" * 32_767), 3)


# --- batches that open to far more than they are ------------------------------------------------


def many_records_looked_up(host: str, port: int, seconds: float) -> None:
    """Lookups by time in a batch of 8 KB with 13 million records, whose header claims a time that
    none of them has."""
    with Attacker(host, port) as attacker:
        _create(attacker, "many-records", {"message.timestamp.after.max.ms": str(2**63 - 1)})
        attacker.produce("many-records", many_records())
        attacker.produce("many-records", many_records(later_ms=60_000))
    now_ms = int(time.time() * 1000)
    for ahead_ms in _in_turn(seconds, (-(10**9), 30_000, 59_000)):
        with _survived(), Attacker(host, port) as attacker:
            attacker.ask(_offsets_at("many-records", now_ms + ahead_ms), 7)
            attacker.ask(_offsets_at("many-records", -3), 7)


def many_records_rewritten(host: str, port: int, seconds: float) -> None:
    """The same batch to topics that have to open it, with and without keys."""
    with Attacker(host, port) as attacker:
        _create(attacker, "many-compacted", {"cleanup.policy": "compact"})
        _create(attacker, "many-recompressed", {"compression.type": "lz4"})
    for topic, with_keys in _in_turn(
        seconds, [(t, k) for t in ("many-compacted", "many-recompressed") for k in (False, True)]
    ):
        with _survived(), Attacker(host, port) as attacker:
            attacker.produce(topic, many_records(with_keys=with_keys))


def bombs(host: str, port: int, seconds: float) -> None:
    """24 connections at once, each with 32 KB that open to 1 GiB."""
    with Attacker(host, port) as attacker:
        _create(attacker, "bombs-compacted", {"cleanup.policy": "compact"})
        _create(attacker, "bombs-recompressed", {"compression.type": "gzip"})
    end = time.monotonic() + seconds

    def throw(topic: str) -> None:
        for batch in _in_turn(end - time.monotonic(), [bomb()]):
            with _survived(), Attacker(host, port) as attacker:
                attacker.produce(topic, batch)

    topics = ("bombs-compacted", "bombs-recompressed")
    threads = [threading.Thread(target=throw, args=(topics[at % 2],)) for at in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        poison_internal_topics,
        unencodable_commits,
        many_records_looked_up,
        many_records_rewritten,
        bombs,
    )
}


# --- what they are made of ----------------------------------------------------------------------


@cache
def _many(with_keys: bool) -> bytes:
    key = b"\x02k" if with_keys else b"\x01"
    body = b"\0\0\0" + key + b"\x01\0"
    record = bytes((2 * len(body),)) + body
    count = MANY_RECORDS if not with_keys else MANY_RECORDS * 7 // 8
    return bytes(cramjam.zstd.compress(record * count))


def many_records(
    *, with_keys: bool = False, later_ms: int = 0, stamp_ms: int | None = None
) -> bytes:
    """A batch of about 8 KB. `later_ms` after its records is the time that its header claims."""
    count = MANY_RECORDS if not with_keys else MANY_RECORDS * 7 // 8
    payload = _many(with_keys)
    batch = bytearray(
        wire.batch([], codec=ZSTD, payload=payload, count=count, timestamp_ms=stamp_ms)
    )
    (stamp,) = struct.unpack_from(">q", batch, 35)
    struct.pack_into(">q", batch, 35, stamp + later_ms)
    return wire.seal(batch)


@cache
def _bomb() -> bytes:
    return bytes(cramjam.zstd.compress(bytes(BOMB_BYTES)))


def bomb(*, stamp_ms: int | None = None) -> bytes:
    return wire.batch([], codec=ZSTD, payload=_bomb(), count=1, timestamp_ms=stamp_ms)


def _produce(topic: str, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def _offsets_at(topic: str, timestamp: int) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


def _commit(group: str, *, retention_ms: int = -1, metadata: str = "") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=at, committed_offset=1, committed_metadata=metadata
        )
        for at in [0] * 90
    ]
    topic = OffsetCommitRequestTopic(name="hostile", partitions=partitions)
    return OffsetCommitRequest(group_id=group, retention_time_ms=retention_ms, topics=[topic])


def _join(protocol: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="hostile",
        session_timeout_ms=6000,
        rebalance_timeout_ms=100,
        member_id="",
        protocol_type=protocol,
        protocols=[JoinGroupRequestProtocol(name=protocol, metadata=b"")],
    )


def _wake_coordinators(host: str, port: int) -> None:
    """Have the internal topics made, as the first group and the first transaction do."""
    with Attacker(host, port) as attacker:
        for kind in (0, 1):
            request = FindCoordinatorRequest(key="hostile", key_type=kind)
            for _ in range(100):
                if attacker.ask(request, 2).error_code == 0:
                    break
                time.sleep(0.1)


def _create(attacker: Attacker, topic: str, configs: dict[str, str]) -> None:
    """A topic of its own with one partition, if it is not there yet."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    attacker.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
    for _ in range(100):
        answer = attacker.ask(_offsets_at(topic, -1), 7)
        if answer.topics[0].partitions[0].error_code == 0:
            return
        time.sleep(0.1)


def _in_turn(seconds: float, choices: Any) -> Iterator[Any]:
    """At least each choice once, then on until the time is over."""
    end = time.monotonic() + seconds
    yield from choices
    while time.monotonic() < end:
        yield from choices


@contextmanager
def _survived() -> Iterator[None]:
    """To be refused, thrown out or left waiting is what an attacker expects."""
    with suppress(ConnectionError, TimeoutError):
        yield
