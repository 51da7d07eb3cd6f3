"""Idempotent and transactional producing over the wire, and reading what was committed.

With OTTLA_TEST_TARGET=kafka the same is asked of Apache Kafka.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.brokers import Broker
from server_wire import (
    PROTOCOL_1,
    PROTOCOL_2,
    Transactor,
    batch_of,
    create_topic,
    produce,
    produce_request,
)

from broker_harness import build, end
from broker_wire import Wire, until_served
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.header import batches
from ottla.records.reader import read_records

FETCH = 12
COMMITTED, UNCOMMITTED = 1, 0
PRODUCE_VERSIONS = range(3, 14)


@pytest.fixture(
    scope="module",
    params=[{}, {"log.flush.interval.messages": "1"}],
    ids=["answered at once", "answered when flushed"],
)
def broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Broker]:
    """With flushes, coordinators and partitions take their time, and requests have to wait."""
    one = build(tmp_path_factory.mktemp("transactions"), request.param)
    try:
        yield one.start()
        end(one, signal.SIGTERM)
    finally:
        one.remove()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    one = Wire(broker)
    yield one
    one.close()


def producer_id(wire: Wire) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = until_served(lambda: wire.ask(request, 4), lambda answer: int(answer.error_code))
    assert answer.error_code == 0
    return int(answer.producer_id)


def fetch(wire: Wire, topic: str, offset: int = 0, **fields: Any) -> PartitionData:
    request = fetch_request(topic, offset, **fields)
    data: PartitionData = wire.ask(request, FETCH).responses[0].partitions[0]
    assert data.error_code == 0
    return data


def fetch_request(
    topic: str,
    offset: int,
    *,
    isolation: int = COMMITTED,
    wait_ms: int = 0,
    min_bytes: int = 1,
) -> FetchRequest:
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def values(data: PartitionData) -> list[bytes | None]:
    """As a consumer would take them: without the records of aborted transactions."""
    assert data.records is not None
    aborted = sorted(
        (entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ()
    )
    skipping: set[int] = set()
    found: list[bytes | None] = []
    for header, batch in batches(data.records):
        while aborted and aborted[0][0] <= header.last_offset:
            skipping.add(aborted.pop(0)[1])
        if header.is_control:
            skipping.discard(header.producer_id)
        elif header.producer_id not in skipping or not header.is_transactional:
            found += [record.value for record in read_records(batch)]
    return found


def end_offset(wire: Wire, topic: str, isolation: int = UNCOMMITTED, timestamp: int = -1) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    answer = wire.ask(request, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


# --- idempotence --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_repeated_batch_is_answered_with_its_first_offset(
    wire: Wire, topic: str, version: int
) -> None:
    topic_id = create_topic(wire, topic)
    place = topic_id if version >= 13 else topic
    producer = producer_id(wire)
    first = batch_of(producer, 0, 0, b"a", b"b")
    second = batch_of(producer, 0, 2, b"c")
    answers = [produce(wire, place, batch, version) for batch in (first, second, first, second)]
    assert [answer.error_code for answer in answers] == [0, 0, 0, 0]
    assert [answer.base_offset for answer in answers] == [0, 2, 0, 2]
    assert end_offset(wire, topic) == 3


def test_gaps_and_epochs_of_the_past_are_refused(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    producer = producer_id(wire)

    def send(epoch: int, sequence: int) -> int:
        return produce(wire, topic, batch_of(producer, epoch, sequence)).error_code

    assert send(0, 0) == 0
    assert send(0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1, 0) == 0
    assert send(0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end_offset(wire, topic) == 2


def test_a_producer_that_the_partition_does_not_know_may_begin_anywhere(
    wire: Wire, topic: str
) -> None:
    create_topic(wire, topic)
    answer = produce(wire, topic, batch_of(producer_id(wire), 0, 41))
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_producers_are_described(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    idempotent = producer_id(wire)
    produce(wire, topic, batch_of(idempotent, 3, 5, b"a", b"b"))
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send(b"c").error_code == 0

    def described() -> dict[int, tuple[int, ...]]:
        wanted = TopicRequest(name=topic, partition_indexes=[0, 9])
        answer = wire.ask(DescribeProducersRequest(topics=[wanted]), 0)
        found, missing = answer.topics[0].partitions
        assert (found.error_code, missing.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        now_ms = time.time() * 1000
        assert all(now_ms - 60_000 < p.last_timestamp <= now_ms for p in found.active_producers)
        return {
            p.producer_id: (
                p.producer_epoch,
                p.last_sequence,
                p.coordinator_epoch,
                p.current_txn_start_offset,
            )
            for p in found.active_producers
        }

    name, epoch = transactor.producer_id, transactor.epoch
    assert described() == {idempotent: (3, 6, -1, -1), name: (epoch, 0, -1, 2)}
    transactor.end(commit=True)
    until_stable(wire, topic)
    assert described() == {idempotent: (3, 6, -1, -1), name: (epoch + 1, -1, 0, -1)}


@pytest.mark.parametrize(
    ("name", "code"),
    [("no such topic", ErrorCode.INVALID_TOPIC_EXCEPTION), ("no-such-topic", 3)],
)
def test_producers_of_no_topic_are_not_described(wire: Wire, name: str, code: int) -> None:
    wanted = TopicRequest(name=name, partition_indexes=[0])
    answer = wire.ask(DescribeProducersRequest(topics=[wanted]), 0)
    assert answer.topics[0].partitions[0].error_code == code


# --- verification --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_partition_that_was_not_added_is_refused(
    wire: Wire, topic: str, version: int, code: ErrorCode
) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, version)
    assert transactor.send().error_code == code
    assert end_offset(wire, topic) == 0


def test_a_partition_that_was_added_is_written_to(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_1)
    assert transactor.add_partition() == 0
    assert [transactor.send().error_code for _ in range(3)] == [0, 0, 0]
    assert transactor.end(commit=True) == 0


@pytest.mark.parametrize("version", [12, 13])
def test_new_clients_need_not_add_partitions(wire: Wire, topic: str, version: int) -> None:
    topic_id = create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, version)
    place = topic_id if version >= 13 else topic
    answer = produce(wire, place, transactor.batch(), version, transactional_id=topic)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert end_offset(wire, topic, COMMITTED) == 0
    assert transactor.end(commit=True) == 0
    until_stable(wire, topic)


def test_transactional_batches_need_a_transactional_id(wire: Wire, topic: str) -> None:
    create_topic(wire, topic, 2)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    request = produce_request(topic, {0: transactor.batch(), 1: batch_of(-1, -1, -1)})
    answers = wire.ask(request, PROTOCOL_2).responses[0].partition_responses
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [answer.error_code for answer in answers] == [code, code]
    assert end_offset(wire, topic) == 0


def test_one_request_is_of_one_transactional_producer(wire: Wire, topic: str) -> None:
    create_topic(wire, topic, 2)
    one = Transactor(wire, topic, topic, PROTOCOL_2)
    other = Transactor(wire, f"{topic}-2", topic, PROTOCOL_2)
    request = produce_request(topic, {0: one.batch(), 1: other.batch()}, transactional_id=one.id)
    answers = wire.ask(request, PROTOCOL_2).responses[0].partition_responses
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", [PROTOCOL_1, PROTOCOL_2])
def test_a_zombie_is_fenced(wire: Wire, topic: str, version: int) -> None:
    create_topic(wire, topic)
    zombie = Transactor(wire, topic, topic, version)
    successor = Transactor(wire, topic, topic, version)
    assert zombie.send().error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    if version == PROTOCOL_1:
        assert successor.add_partition() == 0
    assert successor.send().error_code == 0
    assert zombie.send().error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [PROTOCOL_1, PROTOCOL_2])
def test_another_producer_s_id_is_refused(wire: Wire, topic: str, version: int) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, version)
    transactor.producer_id += 1_000_000
    assert transactor.send().error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_batch_after_the_end_of_its_transaction_is_refused(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send().error_code == 0
    late = transactor.batch()
    assert transactor.end(commit=True) == 0
    until_stable(wire, topic)
    answer = produce(wire, topic, late, PROTOCOL_2, transactional_id=topic)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end_offset(wire, topic, COMMITTED) == 2


def test_a_repeated_batch_of_a_transaction_is_not_stored_again(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    batch = transactor.batch(b"once")
    for _ in range(3):
        answer = produce(wire, topic, batch, PROTOCOL_2, transactional_id=topic)
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert transactor.end(commit=True) == 0
    until_stable(wire, topic)
    assert values(fetch(wire, topic)) == [b"once"]


def test_a_batch_outside_of_the_open_transaction_is_refused(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send().error_code == 0
    outside = batch_of(transactor.producer_id, transactor.epoch, transactor.sequence)
    assert produce(wire, topic, outside).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_transaction_of_a_new_client_begins_with_sequence_zero(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    transactor.sequence = 1
    assert transactor.send().error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_sent_in_one_go_are_stored_in_order(wire: Wire, topic: str) -> None:
    """The first one asks the coordinator, and the others may not overtake it."""
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    requests = [
        produce_request(topic, {0: transactor.batch(b"%d" % number)}, transactional_id=topic)
        for number in range(20)
    ]
    wire.send_bytes(b"".join(wire.frame(request, PROTOCOL_2) for request in requests))
    for number, request in enumerate(requests):
        answer = wire.receive(request, PROTOCOL_2).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, number)
    assert transactor.end(commit=True) == 0
    until_stable(wire, topic)
    assert values(fetch(wire, topic)) == [b"%d" % number for number in range(20)]


def test_one_transaction_may_follow_the_other_at_once(wire: Wire, topic: str) -> None:
    """The markers of the last one may still be on their way: that is the broker's to wait for."""
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    for number in range(30):
        answer = transactor.send(b"%d" % number)
        assert answer.error_code in (0, ErrorCode.CONCURRENT_TRANSACTIONS), number
        if answer.error_code:  # the broker's patience has an end on a busy machine
            transactor.sequence = 0
            time.sleep(0.5)
            assert transactor.send(b"%d" % number).error_code == 0
        assert transactor.end(commit=number % 2 == 0) == 0
    until_stable(wire, topic)
    assert values(fetch(wire, topic)) == [b"%d" % number for number in range(0, 30, 2)]


# --- markers ------------------------------------------------------------------------------------


def write_marker(wire: Wire, topic: str, **fields: Any) -> int:
    marker = WritableTxnMarker(
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])], **fields
    )
    answer = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def test_markers_of_the_past_are_refused(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    producer = producer_id(wire)

    def mark(producer_epoch: int, coordinator_epoch: int) -> int:
        return write_marker(
            wire,
            topic,
            producer_id=producer,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_result=False,
        )

    assert mark(5, 3) == 0
    assert mark(4, 3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(5, 2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(6, 4) == 0
    assert end_offset(wire, topic, COMMITTED) == 2


def test_an_operator_ends_a_hanging_transaction(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send(b"hanging").error_code == 0
    assert end_offset(wire, topic, COMMITTED) == 0
    code = write_marker(
        wire,
        topic,
        producer_id=transactor.producer_id,
        producer_epoch=transactor.epoch,
        coordinator_epoch=0,
        transaction_result=False,
    )
    assert code == 0
    assert end_offset(wire, topic, COMMITTED) == 2
    assert values(fetch(wire, topic)) == []


# --- reading ------------------------------------------------------------------------------------


def until_stable(wire: Wire, topic: str) -> None:
    deadline = time.monotonic() + 20
    while end_offset(wire, topic, COMMITTED) != end_offset(wire, topic):
        assert time.monotonic() < deadline, "a finished transaction holds readers back"
        time.sleep(0.02)


def test_readers_of_committed_data_stop_at_the_first_open_transaction(
    wire: Wire, topic: str
) -> None:
    create_topic(wire, topic)
    produce(wire, topic, batch_of(-1, -1, -1, b"before"))
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send(b"open").error_code == 0
    produce(wire, topic, batch_of(-1, -1, -1, b"behind"))
    data = fetch(wire, topic)
    assert values(data) == [b"before"]
    assert (data.high_watermark, data.last_stable_offset) == (3, 1)
    assert data.aborted_transactions == []
    assert fetch(wire, topic, 2).records in (b"", None)
    everything = fetch(wire, topic, isolation=UNCOMMITTED)
    assert values(everything) == [b"before", b"open", b"behind"]
    assert everything.last_stable_offset == 1
    assert everything.aborted_transactions is None


def test_aborted_data_is_never_seen(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    committed, aborted = (
        Transactor(wire, f"{topic}-{name}", topic, PROTOCOL_2) for name in ("yes", "no")
    )
    for number in range(5):
        assert committed.send(b"yes %d" % number).error_code == 0
        assert aborted.send(b"no %d" % number).error_code == 0
    assert aborted.end(commit=False) == 0
    assert committed.end(commit=True) == 0
    until_stable(wire, topic)
    for offset in range(12):
        data = fetch(wire, topic, offset)
        assert all(value.startswith(b"yes") for value in values(data) if value)
    assert values(fetch(wire, topic)) == [b"yes %d" % number for number in range(5)]


def test_offsets_are_looked_up_below_the_stable_offset(wire: Wire, topic: str) -> None:
    create_topic(wire, topic)
    produce(wire, topic, batch_of(-1, -1, -1, b"before"))
    between_ms = int(time.time() * 1000) + 1
    time.sleep(0.005)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send(b"open").error_code == 0
    assert end_offset(wire, topic, COMMITTED) == 1
    assert end_offset(wire, topic, UNCOMMITTED, between_ms) == 1
    assert end_offset(wire, topic, COMMITTED, between_ms) == -1
    assert transactor.end(commit=True) == 0
    until_stable(wire, topic)
    assert end_offset(wire, topic, COMMITTED, between_ms) == 1


def test_the_end_of_a_transaction_wakes_those_who_wait_for_committed_data(
    broker: Broker, wire: Wire, topic: str
) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    assert transactor.send(b"1").error_code == 0
    reader = Wire(broker)
    request = fetch_request(topic, 0, wait_ms=15_000)
    arrived: list[PartitionData] = []

    def read() -> None:
        arrived.append(reader.ask(request, FETCH).responses[0].partitions[0])

    waiting = threading.Thread(target=read)
    waiting.start()
    for number in range(5):
        assert transactor.send(b"%d" % (number + 2)).error_code == 0
        time.sleep(0.05)
    assert not arrived, "records of an open transaction are none of this reader's business"
    started = time.monotonic()
    assert transactor.end(commit=True) == 0
    waiting.join(10)
    assert time.monotonic() - started < 5
    assert values(arrived[0]) == [b"%d" % (number + 1) for number in range(6)]
    reader.close()


def test_a_reader_waits_for_as_many_committed_bytes_as_it_asked_for(
    broker: Broker, wire: Wire, topic: str
) -> None:
    create_topic(wire, topic)
    transactor = Transactor(wire, topic, topic, PROTOCOL_2)
    reader = Wire(broker)
    request = fetch_request(topic, 0, wait_ms=15_000, min_bytes=20_000)
    reader.send(request, FETCH)
    started = time.monotonic()
    for _ in range(3):
        assert transactor.send(b"x" * 10_000).error_code == 0
    assert transactor.end(commit=True) == 0
    data = reader.receive(request, FETCH).responses[0].partitions[0]
    assert time.monotonic() - started < 10
    assert len(values(data)) == 3
    reader.close()
