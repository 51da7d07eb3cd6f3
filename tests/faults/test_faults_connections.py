"""Clients that stall, never read, come in crowds or fall silent."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from bench import wire
from bench.brokers import Broker, answers
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import MakeBroker

MEMORY_GROWTH_BYTES_MAX = 100 << 20


def create(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    time.sleep(0.3)


def fill(broker: Broker, topic: str, megabytes: int) -> None:
    data = wire.batch([bytes(1 << 19)])
    with wire.Peer(broker.port) as peer:
        for _ in range(2 * megabytes):
            assert wire.parse_produce(peer.ask(wire.produce_frame(topic, 0, data))).error == 0


def worst_answer_s(broker: Broker, topic: str, seconds: float) -> float:
    """The longest produce-and-fetch of a client that behaves, over some time."""
    worst = 0.0
    deadline = time.monotonic() + seconds
    with wire.Peer(broker.port) as peer:
        while time.monotonic() < deadline:
            started = time.monotonic()
            answer = peer.ask(wire.produce_frame(topic, 0, wire.batch([b"x"])))
            sent = wire.parse_produce(answer)
            assert sent.error == 0
            got = wire.parse_fetch(peer.ask(wire.fetch_frame(topic, 0, sent.base_offset)))
            assert got.error == 0
            worst = max(worst, time.monotonic() - started)
            time.sleep(0.005)
    return worst


def send_until_blocked(peer: wire.Peer, data: bytes, count: int) -> int:
    """Ask without ever reading, until the broker stops taking in more."""
    peer.socket.settimeout(1.0)
    for number in range(count):
        try:
            peer.send(data)
        except (TimeoutError, OSError):
            return number
    return count


@pytest.mark.ottla_only
def test_faults_readers_that_never_read_cost_bounded_memory(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker()
    create(broker, topic)
    fill(broker, topic, 16)
    before = broker.rss_bytes()
    peers = [wire.Peer(broker.port) for _ in range(20)]
    try:
        for peer in peers:
            send_until_blocked(peer, wire.fetch_frame(topic, 0, 0) * 50, 20)
        assert worst_answer_s(broker, topic, 1.0) < 1.0
        assert broker.rss_bytes() - before < MEMORY_GROWTH_BYTES_MAX
    finally:
        for peer in peers:
            peer.close()
    assert answers(broker.port)


@pytest.mark.ottla_only
def test_faults_askers_that_never_read_are_not_read_from_either(
    fresh_broker: MakeBroker, topic: str
) -> None:
    """Small requests with large answers: the backlog lies in the client's socket, not with us."""
    broker = fresh_broker({"num.partitions": "500"})
    create(broker, topic)
    with wire.Peer(broker.port) as peer:
        names = [f"{topic}-{number}" for number in range(3)]
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic(name, 500) for name in names]).values():
            future.result(30)
        before = broker.rss_bytes()
        sent = send_until_blocked(peer, wire.metadata_frame(None) * 1000, 200)
        assert sent < 200, "the broker took 200,000 requests whose answers nobody reads"
        assert worst_answer_s(broker, topic, 1.0) < 1.0
        assert broker.rss_bytes() - before < MEMORY_GROWTH_BYTES_MAX


@pytest.mark.ottla_only
def test_faults_slow_and_silent_clients_disturb_nobody(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker()
    create(broker, topic)
    before = broker.rss_bytes()
    frame = wire.produce_frame(topic, 0, wire.batch([b"slow" * 100]))
    peers = [wire.Peer(broker.port) for _ in range(200)]
    stop = threading.Event()

    def drip() -> None:
        position = 0
        while not stop.wait(0.02) and position < len(frame):
            for peer in peers[:100]:
                peer.send(frame[position : position + 1])
            position += 1

    # Half of them send a byte now and then; half announce 90 MB and fall silent.
    for peer in peers[100:]:
        peer.send((90 << 20).to_bytes(4, "big") + b"\0")
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert worst_answer_s(broker, topic, 2.0) < 1.0
        assert broker.rss_bytes() - before < MEMORY_GROWTH_BYTES_MAX
    finally:
        stop.set()
        dripping.join()
        for peer in peers:
            peer.close()


def test_faults_a_frame_that_arrives_byte_by_byte_is_answered(
    bootstrap: str, broker: Broker
) -> None:
    with wire.Peer(broker.port) as peer:
        for byte in wire.api_versions_frame(77):
            peer.send(bytes([byte]))
            time.sleep(0.002)
        answer = peer.receive()
        assert answer is not None
        assert answer[:6] == (77).to_bytes(4, "big") + b"\0\0"


def test_faults_pipelined_requests_are_answered_in_order(broker: Broker) -> None:
    with wire.Peer(broker.port) as peer:
        peer.send(b"".join(wire.api_versions_frame(number) for number in range(500)))
        for number in range(500):
            answer = peer.receive()
            assert answer is not None
            assert int.from_bytes(answer[:4], "big") == number


def ended(peer: wire.Peer, within_s: float) -> bool:
    peer.socket.settimeout(within_s)
    try:
        return peer.socket.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_faults_idle_connections_are_closed_and_busy_ones_kept(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker({"connections.max.idle.ms": "1500"})
    with wire.Peer(broker.port) as idle, wire.Peer(broker.port) as busy:
        idle.ask(wire.api_versions_frame())
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            busy.ask(wire.api_versions_frame())
            time.sleep(0.2)
        assert ended(idle, 2)
        busy.ask(wire.api_versions_frame())


def test_faults_requests_up_to_the_limit_are_read_and_larger_ones_end_the_connection(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker = fresh_broker({"socket.request.max.bytes": "20000"})
    create(broker, topic)

    def frame_of(size: int) -> bytes:
        overhead = len(wire.produce_frame(topic, 0, wire.batch([bytes(19_000)]))) - 19_000
        return wire.produce_frame(topic, 0, wire.batch([bytes(size + 4 - overhead)]))

    assert len(frame_of(20_000)) == 20_004
    with wire.Peer(broker.port) as peer:
        assert wire.parse_produce(peer.ask(frame_of(20_000))).error == 0
        peer.send(frame_of(20_001))
        assert peer.receive() is None
    assert answers(broker.port)


def test_faults_connections_per_address_are_limited(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker({"max.connections.per.ip": "10"})
    peers = [wire.Peer(broker.port) for _ in range(10)]
    try:
        for peer in peers:
            peer.ask(wire.api_versions_frame())
        assert not answers(broker.port), "an eleventh connection was served"
        peers.pop().close()
        deadline = time.monotonic() + 5
        while not answers(broker.port):
            assert time.monotonic() < deadline, "the freed place was not given to anyone"
            time.sleep(0.05)
        for peer in peers:
            peer.ask(wire.api_versions_frame())
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.ottla_only
def test_faults_connections_beyond_the_limit_hurt_nobody_who_is_served(
    fresh_broker: MakeBroker,
) -> None:
    broker = fresh_broker({"max.connections": "10"})
    peers = [wire.Peer(broker.port) for _ in range(10)]
    crowd: list[socket.socket] = []
    try:
        for peer in peers:
            peer.ask(wire.api_versions_frame())
        crowd += [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(10)]
        assert not answers(broker.port, timeout_s=0.5)
        for peer in peers:
            peer.ask(wire.api_versions_frame())
        for waiting in crowd:
            waiting.close()
        for peer in peers:
            peer.close()
        deadline = time.monotonic() + 5
        while not answers(broker.port):
            assert time.monotonic() < deadline, "the freed places were not given to anyone"
            time.sleep(0.05)
    finally:
        for one in (*peers, *crowd):
            one.close()
