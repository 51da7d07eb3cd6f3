"""Quotas of a broker process, as clients meet them. The same tests pass against Apache Kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bench.brokers import Broker
from server_wire import batch_of, create_topic, produce_request

from broker_harness import MakeBroker
from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from quota_questions import change, find

WINDOWS = 3
"""Of one second each: the shortest that Kafka's settings allow."""
RATE = 400_000.0
MEASURED_S = 4.0
BATCH = batch_of(-1, -1, -1, b"x" * 4_000)
PRODUCE_VERSION, FETCH_VERSION = 9, 12


@pytest.fixture(scope="module")
def quoted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from broker_harness import build

    broker = build(
        tmp_path_factory.mktemp("quoted"),
        {"quota.window.num": str(WINDOWS), "quota.window.size.seconds": "1"},
    )
    try:
        yield broker.start()
    finally:
        broker.remove()


@pytest.fixture
def wire(quoted: Broker, topic: str) -> Iterator[Wire]:
    """Of a client id that no other test has, so that it has used nothing yet."""
    opened = Wire(quoted, client_id=topic)
    yield opened
    opened.close()


@pytest.fixture
def limit(quoted: Broker, topic: str) -> Iterator[Callable[..., None]]:
    """`limit(producer_byte_rate=5.0)`: a quota of the test's client id; it ends with the test."""
    wire = Wire(quoted)
    client: list[tuple[str, str | None]] = [("client-id", topic)]
    used: set[str] = set()

    def apply(**rates: float | None) -> None:
        used.update(rates)
        answer = wire.ask(change((client, list(rates.items()))), 1)
        assert answer.entries[0].error_code == 0, answer
        expected = {key: value for key, value in rates.items() if value is not None}
        deadline = time.monotonic() + 10
        while True:
            entries = wire.ask(find(), 1).entries
            if {value.key: value.value for entry in entries for value in entry.values} == expected:
                return
            assert time.monotonic() < deadline, entries
            time.sleep(0.01)

    yield apply
    apply(**dict.fromkeys(used))
    wire.close()


def fetch_request(topic: str, offset: int = 0, session_epoch: int = -1, session: int = 0) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        session_id=session,
        session_epoch=session_epoch,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])] if session_epoch <= 0 else [],
    )


def records_in(answer: Any) -> int:
    return sum(len(p.records or b"") for topic in answer.responses for p in topic.partitions)


def moved(do: Callable[[], int]) -> tuple[int, float]:
    """The bytes that `do` moves, and how long that takes, to the end of the last pause."""
    started = time.monotonic()
    count = 0
    while time.monotonic() - started < MEASURED_S:
        count += do()
    return count, time.monotonic() - started


def check_rate(count: int, seconds: float, rate: float) -> None:
    """A quota may be used up at once for all windows but the newest, and again when a window with
    such a burst is over: so there is more in a short time than in a long one, as in Kafka. That the
    rate holds over long times is tested in virtual time (`tests/quotas`)."""
    assert rate * (seconds - 2) * 0.95 <= count <= rate * (seconds + WINDOWS) * 1.05


def test_producers_and_consumers_get_their_rate(
    quoted: Broker, wire: Wire, topic: str, limit: Callable[..., None]
) -> None:
    create_topic(wire, topic)
    wire.ask(produce_request(topic, {0: batch_of(-1, -1, -1, b"x" * 20_000)}), PRODUCE_VERSION)
    limit(producer_byte_rate=RATE, consumer_byte_rate=RATE / 2)
    request = produce_request(topic, {0: BATCH}, acks=1)
    size = len(wire.frame(request, PRODUCE_VERSION)) - 4

    def produces() -> Callable[[], int]:
        own = Wire(quoted, client_id=topic)

        def produce() -> int:
            own.ask(request, PRODUCE_VERSION)
            return size

        return produce

    def fetches() -> Callable[[], int]:
        own = Wire(quoted, client_id=topic)

        def fetch() -> int:
            answer = own.ask(fetch_request(topic), FETCH_VERSION)
            assert not records_in(answer) or not answer.throttle_time_ms
            return records_in(answer)

        return fetch

    with ThreadPoolExecutor() as threads:
        # Two producers share the budget of their client id.
        produced = [threads.submit(moved, produces()) for _ in range(2)]
        fetched = threads.submit(moved, fetches())
        counts, times = zip(*(one.result() for one in produced), strict=True)
        check_rate(sum(counts), max(times), RATE)
        check_rate(*fetched.result(), RATE / 2)


@pytest.mark.parametrize(("acks", "version"), [(1, PRODUCE_VERSION), (-1, 3), (0, 3)])
def test_a_produce_over_the_quota_is_answered_and_what_follows_waits(
    wire: Wire, topic: str, limit: Callable[..., None], acks: int, version: int
) -> None:
    create_topic(wire, topic)
    request = produce_request(topic, {0: batch_of(-1, -1, -1, b"x" * 20_000)}, acks=acks)
    limit(producer_byte_rate=6_000.0)
    started = time.monotonic()
    wire.send(request, version)
    if acks:
        answer = wire.receive(request, version)
        told_s = answer.throttle_time_ms / 1000
        assert time.monotonic() - started < 0.5
        assert 0.4 < told_s <= 20_200 / 6_000
    else:
        told_s = 0.4
    wire.ask(MetadataRequest(topics=[]), 12)
    assert time.monotonic() - started >= told_s - 0.01


def test_a_fetch_over_the_quota_is_empty_and_its_session_goes_on(
    wire: Wire, topic: str, limit: Callable[..., None]
) -> None:
    create_topic(wire, topic)
    for _ in range(4):
        wire.ask(produce_request(topic, {0: batch_of(-1, -1, -1, b"x" * 9_000)}), PRODUCE_VERSION)
    begun = wire.ask(fetch_request(topic, session_epoch=0), FETCH_VERSION)
    assert begun.session_id
    limit(consumer_byte_rate=5_000.0)
    answers = []
    deadline = time.monotonic() + 10
    for epoch in range(1, 10):
        request = fetch_request(topic, session_epoch=epoch, session=begun.session_id)
        answers.append(wire.ask(request, FETCH_VERSION))
        assert answers[-1].error_code == 0
        assert answers[-1].session_id == begun.session_id
        if len(answers) > 2 and records_in(answers[-1]):
            break
        assert time.monotonic() < deadline
    throttled = [answer for answer in answers if answer.throttle_time_ms]
    assert throttled
    assert not any(records_in(answer) for answer in throttled)
    assert records_in(answers[-1]), "after the pause there are records again"


def test_request_time_is_limited(wire: Wire, limit: Callable[..., None]) -> None:
    limit(request_percentage=0.01)
    told = []
    started = time.monotonic()
    while not told or told[-1] == 0:
        told.append(wire.ask(MetadataRequest(topics=[]), 12).throttle_time_ms)
        assert time.monotonic() - started < 10
    assert 0 < told[-1] <= 1_000, "not more than one window"


def test_a_quota_of_another_client_id_does_not_count(fresh_broker: MakeBroker, topic: str) -> None:
    wire = Wire(fresh_broker())
    create_topic(wire, topic)
    entity = [("client-id", "somebody"), ("user", None)]
    wire.ask(change((entity, [("producer_byte_rate", 1.0)])), 1)
    for _ in range(5):
        answer = wire.ask(produce_request(topic, {0: BATCH}, acks=1), PRODUCE_VERSION)
        assert answer.throttle_time_ms == 0


def many_topics(prefix: str, count: int) -> CreateTopicsRequest:
    """Of more topics than are created at once. To validate them is charged, too."""
    topics = [
        CreatableTopic(name=f"{prefix}-{number}", num_partitions=1, replication_factor=1)
        for number in range(count)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=True)


def test_a_large_request_changes_as_much_as_the_quota_allows(
    wire: Wire, topic: str, limit: Callable[..., None]
) -> None:
    rate, burst, count = 10.0, 110, 3_000
    limit(controller_mutation_rate=rate)
    started = time.monotonic()
    answer = wire.ask(many_topics(topic, count), 7)
    most = burst + 1 + rate * (time.monotonic() - started)
    codes = Counter(one.error_code for one in answer.topics)
    assert set(codes) == {0, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert burst < codes[0] <= most
    assert 0 <= answer.throttle_time_ms <= 1_000, "what is missing now, not what was asked for"
    assert {one.error_message for one in answer.topics} == {None}
    assert all(one.error_code == 0 for one in answer.topics[:burst]), "the first ones"


def test_a_large_request_of_an_old_client_is_served_and_paid_for_afterwards(
    quoted: Broker, topic: str, limit: Callable[..., None]
) -> None:
    rate, burst, count = 10.0, 110, 3_000
    limit(controller_mutation_rate=rate)
    wire = Wire(quoted, client_id=topic)
    started = time.monotonic()
    answer = wire.ask(many_topics(topic, count), 5)
    assert {one.error_code for one in answer.topics} == {0}
    owed_s = (count - burst) / rate
    assert owed_s - (time.monotonic() - started) - 1 <= answer.throttle_time_ms / 1000 <= owed_s
    wire.send(MetadataRequest(topics=[]), 12)
    wire.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        wire.socket.recv(1)
    wire.close()


def test_connections_from_an_address_are_limited(quoted: Broker, wire: Wire) -> None:
    """One too many is kept silent for the throttle time, and closed."""
    address: list[tuple[str, str | None]] = [("ip", "127.0.0.1")]
    wire.ask(change((address, [("connection_creation_rate", 2.0)])), 1)
    refused = 0
    opened: list[Wire] = []
    deadline = time.monotonic() + 10
    try:
        while not refused:
            assert time.monotonic() < deadline
            opened.append(Wire(quoted))
            started = time.monotonic()
            try:
                opened[-1].ask(MetadataRequest(topics=[]), 12)
            except (AssertionError, ConnectionError):
                refused += 1
                assert 0.1 < time.monotonic() - started < 5
        assert len(opened) > 2, "some are welcome"
        wire.ask(MetadataRequest(topics=[]), 12)
    finally:
        wire.ask(change((address, [("connection_creation_rate", None)])), 1)
        for each in opened:
            each.close()


def test_a_listener_opens_connections_at_its_rate(fresh_broker: MakeBroker) -> None:
    rate = 10
    broker = fresh_broker({"max.connection.creation.rate": str(rate), "quota.window.num": "2"})
    started = time.monotonic()
    count = 0
    while time.monotonic() - started < 3:
        wire = Wire(broker)
        wire.ask(MetadataRequest(topics=[]), 12)
        wire.close()
        count += 1
    elapsed = time.monotonic() - started
    assert rate * (elapsed - 1.5) <= count <= rate * (elapsed + 2.5)
