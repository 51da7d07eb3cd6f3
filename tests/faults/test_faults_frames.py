"""Broken frames, from a corpus and from Hypothesis, while a well-behaved client goes on."""

from __future__ import annotations

import gzip
import io
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from bench import wire
from bench.brokers import Broker
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_harness import build, end

TOPIC = "frames"
MEMORY_GROWTH_BYTES_MAX = 150 << 20
LATENCY_S_MAX = 2.0
PATIENCE_S = 10.0


class GoodClient(threading.Thread):
    """Produces and fetches on one connection all the time, and remembers how long it took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.worst_s = 0.0
        self.rounds = 0
        self.trouble: Exception | None = None
        self._done = threading.Event()
        self._port = port

    def run(self) -> None:
        try:
            with wire.Peer(self._port) as peer:
                while not self._done.wait(0.01):
                    self._round(peer)
        except Exception as error:
            self.trouble = error

    def _round(self, peer: wire.Peer) -> None:
        started = time.monotonic()
        value = b"%d" % self.rounds
        sent = wire.parse_produce(peer.ask(wire.produce_frame(TOPIC, 0, wire.batch([value]))))
        assert sent.error == 0
        got = wire.parse_fetch(peer.ask(wire.fetch_frame(TOPIC, 0, sent.base_offset)))
        assert got.error == 0
        assert value in got.records
        self.worst_s = max(self.worst_s, time.monotonic() - started)
        self.rounds += 1

    def finish(self) -> None:
        self._done.set()
        self.join(PATIENCE_S)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that a good client uses during all the tests of this module."""
    broker = build(tmp_path_factory.mktemp("frames"))
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        time.sleep(0.5)
        good = GoodClient(broker.port)
        good.start()
        time.sleep(0.5)
        before = broker.rss_bytes()
        yield broker
        good.finish()
        assert good.trouble is None
        assert good.rounds > 10
        if broker.name == "Ottla":
            assert good.worst_s < LATENCY_S_MAX
            assert broker.peak_rss_bytes() - before < MEMORY_GROWTH_BYTES_MAX
        end(broker, signal.SIGTERM)
    finally:
        broker.remove()


def closes(broker: Broker, data: bytes, *, half_close: bool = False) -> bool:
    """Whether the broker ends the connection after `data` (rather than answer, or wait)."""
    with wire.Peer(broker.port, PATIENCE_S) as peer:
        try:
            peer.send(data)
            if half_close:
                peer.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            return True
        try:
            return peer.receive() is None
        except TimeoutError:
            return False


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


METADATA_HEAD = struct.pack(">hhih", 3, 4, 1, -1)
CLOSING = {
    "zero length": struct.pack(">i", 0),
    "negative length": struct.pack(">i", -1) + b"x" * 100,
    "most negative length": struct.pack(">i", -(1 << 31)),
    "length beyond the limit": struct.pack(">i", 104_857_601) + b"x" * 1000,
    "largest length": struct.pack(">i", (1 << 31) - 1) + b"x" * 1000,
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "one byte of header": sized(b"\0"),
    "header cut short": sized(struct.pack(">hh", 3, 4)),
    "client id beyond the end": sized(struct.pack(">hhih", 3, 4, 1, 500) + b"short"),
    "negative client id length": sized(struct.pack(">hhih", 3, 4, 1, -5)),
    "unknown API": sized(struct.pack(">hhih", 9999, 0, 1, -1)),
    "negative API": sized(struct.pack(">hhih", -7, 0, 1, -1)),
    "version beyond the newest": sized(struct.pack(">hhih", 3, 99, 1, -1) + b"\0" * 20),
    "negative version": sized(struct.pack(">hhih", 3, -1, 1, -1) + b"\0" * 20),
    "produce version from before batches": sized(struct.pack(">hhih", 0, 1, 1, -1) + b"\0" * 20),
    "array of two thousand million": sized(METADATA_HEAD + struct.pack(">i", 0x7FFFFFFF)),
    "array length below -1": sized(METADATA_HEAD + struct.pack(">i", -2)),
    "string beyond the end": sized(METADATA_HEAD + struct.pack(">ih", 1, 300) + b"abc"),
    "body missing": sized(METADATA_HEAD),
    "string that is not UTF-8": sized(struct.pack(">hhih", 3, 12, 1, -1) + b"\0\x02\x05\xff\xfe"),
    "endless varint": sized(struct.pack(">hhih", 3, 12, 1, -1) + b"\0" + b"\xff" * 30),
    "tags beyond the end": sized(struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\xff\xff\xff\x0f"),
}


@pytest.mark.parametrize("name", CLOSING)
def test_faults_broker_closes_the_connection_on(target: Broker, name: str) -> None:
    assert closes(target, CLOSING[name])


@pytest.mark.parametrize("length", [1, 3, 4, 5, 12, 30])
def test_faults_broker_closes_after_a_frame_cut_short(target: Broker, length: int) -> None:
    whole = wire.produce_frame(TOPIC, 0, wire.batch([b"never whole"]))
    assert closes(target, whole[:length], half_close=True)


def test_faults_api_versions_of_the_future_is_answered_in_the_oldest_shape(target: Broker) -> None:
    head = struct.pack(">hhih", 18, 77, 4711, -1)
    with wire.Peer(target.port) as peer:
        answer = peer.ask(sized(head + b"\0" * 10))
        correlation, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation, error) == (4711, wire.UNSUPPORTED_VERSION)
        assert count >= 1
        # The connection lives on, so that the client can ask again with what it was told.
        assert struct.unpack_from(">ih", peer.ask(wire.api_versions_frame(2))) == (2, 0)


def damaged(position: int, form: str, value: int, *, resealed: bool = True) -> bytes:
    data = bytearray(wire.batch([b"one", b"two"]))
    struct.pack_into(form, data, position, value)
    return wire.seal(data) if resealed else bytes(data)


BAD_BATCHES = {
    "wrong checksum": (damaged(17, ">I", 12345, resealed=False), {wire.CORRUPT_MESSAGE}),
    "flipped record byte": (
        damaged(65, ">b", 99, resealed=False),
        {wire.CORRUPT_MESSAGE},
    ),
    "magic 0": (damaged(16, ">b", 0), {wire.INVALID_RECORD}),
    "magic 1": (damaged(16, ">b", 1), {wire.INVALID_RECORD}),
    "magic 3": (damaged(16, ">b", 3), {wire.INVALID_RECORD, wire.CORRUPT_MESSAGE}),
    "length too small for a header": (damaged(8, ">i", 10), {wire.CORRUPT_MESSAGE}),
    "negative length": (damaged(8, ">i", -5), {wire.CORRUPT_MESSAGE}),
    "length beyond the end": (
        damaged(8, ">i", 5000),
        {wire.CORRUPT_MESSAGE, wire.INVALID_RECORD},
    ),
    "count larger than the records": (damaged(57, ">i", 3), {wire.INVALID_RECORD}),
    "count smaller than the last offset": (damaged(57, ">i", 1), {wire.INVALID_RECORD}),
    "negative count": (damaged(57, ">i", -1), {wire.INVALID_RECORD}),
    "negative last offset": (damaged(23, ">i", -1), {wire.INVALID_RECORD}),
    "control batch": (damaged(21, ">h", 0x20), {wire.INVALID_RECORD}),
    "unknown codec": (damaged(21, ">h", 6), {wire.CORRUPT_MESSAGE, wire.INVALID_RECORD, 76, -1}),
    "two batches": (wire.batch([b"1"]) + wire.batch([b"2"]), {wire.INVALID_RECORD}),
    "no bytes": (b"", {wire.INVALID_RECORD}),
    "no records": (wire.batch([], payload=b"", count=0), {wire.INVALID_RECORD}),
    "cut short": (wire.batch([b"one"])[:-3], {wire.CORRUPT_MESSAGE, wire.INVALID_RECORD}),
    "only noise": (random.Random(5).randbytes(200), {wire.CORRUPT_MESSAGE, wire.INVALID_RECORD}),
    "too large": (wire.batch([b"x" * 1_100_000]), {wire.MESSAGE_TOO_LARGE}),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_faults_bad_batch_is_refused_and_the_connection_lives(target: Broker, name: str) -> None:
    records, codes = BAD_BATCHES[name]
    with wire.Peer(target.port, PATIENCE_S) as peer:
        answer = wire.parse_produce(peer.ask(wire.produce_frame(TOPIC, 0, records)))
        assert answer.error in codes
        assert answer.base_offset == -1
        again = wire.parse_produce(peer.ask(wire.produce_frame(TOPIC, 0, wire.batch([b"good"]))))
        assert again.error == 0


def test_faults_produce_to_an_unknown_topic_is_answered(target: Broker) -> None:
    with wire.Peer(target.port) as peer:
        answer = peer.ask(wire.produce_frame("no-such-topic", 0, wire.batch([b"x"])))
        assert wire.parse_produce(answer).error == wire.UNKNOWN_TOPIC
        answer = peer.ask(wire.produce_frame(TOPIC, 17, wire.batch([b"x"])))
        assert wire.parse_produce(answer).error == wire.UNKNOWN_TOPIC


VALID = (
    wire.api_versions_frame(),
    wire.metadata_frame([TOPIC]),
    wire.metadata_frame(None),
    wire.produce_frame(TOPIC, 0, wire.batch([b"value"] * 3)),
    wire.fetch_frame(TOPIC, 0, 0, max_wait_ms=1),
)


def survives(target: Broker, data: bytes) -> None:
    """The broker answers or closes, and in either case soon; a hung connection fails."""
    with wire.Peer(target.port, PATIENCE_S) as peer:
        try:
            peer.send(data)
            peer.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        while peer.receive() is not None:
            pass
    assert target.running


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.ottla_only
@FUZZ
@given(body=st.binary(max_size=200))
def test_faults_random_frames_are_answered_or_closed(target: Broker, body: bytes) -> None:
    survives(target, sized(body))


@pytest.mark.ottla_only
@FUZZ
@given(
    base=st.sampled_from(VALID),
    position=st.integers(4, 400),
    replacement=st.binary(min_size=1, max_size=8),
)
def test_faults_changed_frames_are_answered_or_closed(
    target: Broker, base: bytes, position: int, replacement: bytes
) -> None:
    body = bytearray(base)
    position = 4 + (position - 4) % (len(base) - 4)
    body[position : position + len(replacement)] = replacement
    survives(target, sized(bytes(body[4:])))


@pytest.mark.ottla_only
@FUZZ
@given(
    api=st.integers(-1, 95),
    version=st.integers(-1, 20),
    body=st.binary(max_size=60),
)
def test_faults_noise_behind_a_good_header_is_answered_or_closed(
    target: Broker, api: int, version: int, body: bytes
) -> None:
    survives(target, sized(struct.pack(">hhih", api, version, 1, -1) + body))


def bomb(size: int) -> bytes:
    """A batch with one record of `size` zeros, packed to about a thousandth of it."""
    head = b"\0" + wire.varint(0) * 2 + wire.varint(-1) + wire.varint(size)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as stream:
        stream.write(wire.varint(len(head) + size + 1) + head)
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
        stream.write(wire.varint(0))
    return wire.batch([None], codec=1, payload=packed.getvalue())


def test_faults_bombs_fit_into_bounded_memory(target: Broker) -> None:
    """Where the topic's own codec makes the broker unpack, it stops before the harm is done."""
    topic = "bombs"
    admin = AdminClient({"bootstrap.servers": target.address})
    wish = NewTopic(topic, 1, config={"compression.type": "uncompressed"})
    admin.create_topics([wish])[topic].result(30)
    time.sleep(0.5)
    before = target.peak_rss_bytes()
    with wire.Peer(target.port, 60) as peer:
        answer = peer.ask(wire.produce_frame(topic, 0, bomb(512 << 20)))
        assert wire.parse_produce(answer).error != 0
    if target.name == "Ottla":
        assert target.peak_rss_bytes() - before < MEMORY_GROWTH_BYTES_MAX
