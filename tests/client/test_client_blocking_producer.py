"""The blocking producer against a real broker."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from bench.brokers import Broker

from ottla.blocking.admin import Admin
from ottla.blocking.consumer import Consumer
from ottla.blocking.producer import Producer
from ottla.blocking.sent import Sent
from ottla.client.errors import (
    BufferExhausted,
    DeliveryFailed,
    IllegalState,
    NotBytes,
    ProducerClosed,
    RecordTooLarge,
    TopicMissing,
    TransactionStateError,
)
from ottla.client.producer.interceptors import ProducerInterceptor, ProducerRecord
from ottla.client.serializers import JsonSerializer
from ottla.client.values import OffsetAndMetadata, RecordMetadata, TopicPartition


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topic(topic, partitions=partitions, configs=settings)


def read(bootstrap: str, topic: str, count: int, **options: Any) -> list[Any]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, i) for i in consumer.partitions_for_topic(topic)])
        found: list[Any] = []
        deadline = time.monotonic() + 20
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(500).values():
                found += records
    return found


def test_records_arrive_in_order_and_each_once(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send(topic, str(number).encode()) for number in range(20_000)]
        last = sent[-1].result(timeout=20)
        assert (last.topic, last.partition, last.offset) == (topic, 0, 19_999)
        producer.flush()
        assert all(one.done() for one in sent)
        assert sent[7].get().offset == 7
    values = [int(record.value) for record in read(bootstrap, topic, 20_000)]
    assert values == list(range(20_000))


def test_keys_headers_times_and_partitions_are_kept(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=3)
    with Producer(bootstrap_servers=bootstrap) as producer:
        metadata = producer.send_and_wait(
            topic,
            bytearray(b"value"),
            b"key",
            headers={"a": b"1", "b": None},
            partition=2,
            timestamp_ms=1_700_000_000_000,
        )
        assert metadata == RecordMetadata(topic, 2, 0, 1_700_000_000_000)
        assert producer.partitions_for(topic) == {0, 1, 2}
        assert producer.metrics()["record-send-total"] == 1
    (record,) = read(bootstrap, topic, 1)
    assert (record.key, record.value) == (b"key", b"value")
    assert record.headers == (("a", b"1"), ("b", None))


def test_what_is_changed_after_send_is_not_what_was_sent(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_and_wait(topic, b"first")
        value = bytearray(b"before")
        producer.send(topic, value)
        value[:] = b"after!"
    assert [record.value for record in read(bootstrap, topic, 2)] == [b"first", b"before"]


def test_what_cannot_be_sent_is_raised_at_once(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, max_block_ms=300) as producer:
        with pytest.raises(NotBytes):
            producer.send(topic, "text")
        with pytest.raises(RecordTooLarge):
            producer.send(topic, bytes(2 << 20))
        with pytest.raises(TopicMissing):
            producer.send(topic, b"", partition=9)


def test_serializers_run_in_the_thread_that_sends(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    threads: list[int] = []

    def upper(key: str) -> bytes:
        threads.append(threading.get_ident())
        return key.upper().encode()

    with Producer(
        bootstrap_servers=bootstrap, key_serializer=upper, value_serializer=JsonSerializer()
    ) as producer:
        producer.send(topic, {"n": 1}, "a")
        producer.send(topic, None, "b")
        with pytest.raises(TypeError):
            producer.send(topic, object())
    assert threads == [threading.get_ident()] * 2
    found = [(record.key, record.value) for record in read(bootstrap, topic, 2)]
    assert found == [(b"A", b'{"n":1}'), (b"B", None)]


def test_callbacks_run_in_the_loop_and_may_send(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    told: list[tuple[RecordMetadata | None, Exception | None]] = []
    names: set[str] = set()
    with Producer(bootstrap_servers=bootstrap) as producer:

        def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
            told.append((metadata, error))
            names.add(threading.current_thread().name)
            producer.send(topic, b"from the callback")

        def done(sent: Sent) -> None:
            names.add(threading.current_thread().name)
            told.append((sent.result(), None))

        producer.send(topic, b"one", on_delivery=delivered)
        producer.send(topic, b"two").add_done_callback(done)
        producer.flush()
        at_once = producer.send(topic, b"three")
        at_once.result()
        at_once.add_done_callback(lambda sent: names.add("here"))
    assert names == {"ottla-blocking", "here"}
    assert sorted(m.offset for m, _ in told if m is not None) == [0, 1]
    values = {record.value for record in read(bootstrap, topic, 4)}
    assert values == {b"one", b"two", b"three", b"from the callback"}


def test_several_threads_send_and_each_keeps_its_order(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap) as producer:

        def run(name: int) -> None:
            for number in range(2_000):
                producer.send(topic, f"{name}/{number}".encode())

        threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_thread: dict[str, list[int]] = {}
    for record in read(bootstrap, topic, 8_000):
        name, _, number = record.value.decode().partition("/")
        by_thread.setdefault(name, []).append(int(number))
    assert [by_thread[str(name)] for name in range(4)] == [list(range(2_000))] * 4


@pytest.mark.ottla_only  # kills the broker
def test_memory_is_bounded_and_waiting_for_room_ends(fresh_broker: Any, topic: str) -> None:
    broker: Broker = fresh_broker()
    create(broker.address, topic)
    limit = 256 << 10
    producer = Producer(
        bootstrap_servers=broker.address, buffer_memory=limit, max_block_ms=500, linger_ms=0
    )
    producer.start()
    producer.send_and_wait(topic, b"there")
    broker.kill()
    taken = 0
    began = time.monotonic()
    try:
        for taken in range(10_000):  # noqa: B007
            producer.send(topic, bytes(1_000)).add_done_callback(lambda _: None)
    except BufferExhausted:
        pass
    assert 0.4 < time.monotonic() - began < 10
    assert 100 < taken * 1_000 <= limit
    producer.close(timeout_ms=100)


def test_a_small_buffer_slows_senders_down_and_loses_nothing(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, buffer_memory=64 << 10) as producer:
        for number in range(5_000):
            producer.send(topic, b"%06d" % number + bytes(200))
    values = [int(record.value[:6]) for record in read(bootstrap, topic, 5_000)]
    assert values == list(range(5_000))


def test_a_failure_that_nobody_looked_at_is_raised_by_flush(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, max_message_bytes="500")
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_and_wait(topic, b"small")
        producer.send(topic, bytes(1_000))
        with pytest.raises(DeliveryFailed, match=topic):
            producer.flush()
        seen = producer.send(topic, bytes(1_000))
        assert seen.exception(timeout=20) is not None
        producer.flush()


def test_leaving_by_an_exception_delivers_what_was_given(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    sent: list[Sent] = []

    def fail() -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=20_000) as producer:
            sent.extend(producer.send(topic, b"%d" % number) for number in range(5_000))
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert time.monotonic() - began < 5
    assert not hasattr(caught.value, "__notes__")
    assert [one.result().offset for one in sent] == list(range(5_000))


def test_leaving_by_an_exception_tells_what_could_not_be_delivered(
    fresh_broker: Any, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = fresh_broker()
    create(broker.address, topic)

    def fail() -> None:
        with Producer(
            bootstrap_servers=broker.address, delivery_timeout_ms=700, request_timeout_ms=500
        ) as producer:
            producer.send_and_wait(topic, b"x")
            broker.kill()
            for _ in range(164):
                producer.send(topic, b"y")
            raise ZeroDivisionError

    began = time.monotonic()
    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    assert time.monotonic() - began < 5
    (note,) = caught.value.__notes__
    assert note.startswith("164 records were not delivered")
    assert note in caplog.text


def test_leaving_a_transaction_by_an_exception_sends_nothing_more(
    bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    sent: list[Sent] = []

    def fail() -> None:
        with Producer(
            bootstrap_servers=bootstrap, transactional_id=topic, linger_ms=20_000
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            sent.append(producer.send(topic, b"x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    assert not hasattr(caught.value, "__notes__")
    assert sent[0].exception() is not None


def test_a_closed_producer_takes_nothing(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    with pytest.raises(IllegalState, match=r"with Producer"):
        producer.send(topic, b"")
    producer.start()
    producer.close()
    producer.close()
    with pytest.raises(ProducerClosed):
        producer.send(topic, b"")
    with pytest.raises(ProducerClosed):
        producer.flush()


def test_waiting_for_an_outcome_can_time_out(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, linger_ms=1_000) as producer:
        sent = producer.send(topic, b"lingers")
        with pytest.raises(TimeoutError):
            sent.result(timeout=0.05)
        assert not sent.done()
        assert sent.result(timeout=20).offset == 0


class Marking(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value={**record.value, "marked": True})


def test_interceptors_see_records_as_they_were_given(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(
        bootstrap_servers=bootstrap, interceptors=[Marking()], value_serializer=JsonSerializer()
    ) as producer:
        assert producer.send(topic, {"n": 1}).result(20).offset == 0
    (record,) = read(bootstrap, topic, 1)
    assert record.value == b'{"n":1,"marked":true}'


def test_transactions_commit_abort_and_take_offsets(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    one = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        with pytest.raises(TransactionStateError):
            producer.send(topic, b"too early")
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"kept")

        def fail() -> None:
            with producer.transaction():
                producer.send(topic, b"dropped").add_done_callback(lambda _: None)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        producer.begin_transaction()
        for number in range(1_000):
            producer.send(topic, b"%d" % number)
        with Consumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False
        ) as consumer:
            consumer.poll(0)
            group = consumer.group_metadata()
            producer.send_offsets_to_transaction(
                {one: 1}, group._replace(generation_id=-1, member_id="")
            )
        producer.commit_transaction()
    values = [
        record.value for record in read(bootstrap, topic, 1_001, isolation_level="read_committed")
    ]
    assert values == [b"kept", *(b"%d" % number for number in range(1_000))]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets(topic)[one].offset == OffsetAndMetadata(1).offset


def test_a_prepared_transaction_is_ended_by_an_admin(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"decided elsewhere")
        prepared = producer.prepare_transaction()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.commit_prepared(str(prepared))
        admin.commit_prepared(prepared)
    (record,) = read(bootstrap, topic, 1, isolation_level="read_committed")
    assert record.value == b"decided elsewhere"


def test_rows_are_sent_without_await(bootstrap: str, topic: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send_arrow(topic, arrow.table({"value": [b"a", b"b", None]}))
        assert sent.rows == 3
        (where,) = sent.result(timeout=20)
        assert (where.partition, where.rows) == (TopicPartition(topic, 0), 3)


FORK = """
import os, sys
from ottla.blocking.producer import Producer
from ottla.client.errors import IllegalState

with Producer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send_and_wait(sys.argv[2], b"parent")
    child = os.fork()
    if child == 0:
        try:
            producer.send(sys.argv[2], b"child")
        except IllegalState as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    producer.send_and_wait(sys.argv[2], b"parent again")
"""


def test_a_forked_child_cannot_send(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    done = subprocess.run([sys.executable, "-c", FORK, bootstrap, topic], timeout=30, check=False)
    assert done.returncode == 0
    assert len(read(bootstrap, topic, 2)) == 2


FORGOTTEN = """
import sys
from ottla.blocking import Producer

producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=20_000)
producer.start()
for number in range(5):
    producer.send(sys.argv[2], b"%d" % number)
if sys.argv[3] == "fork":
    import os
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
if sys.argv[3] == "kill":
    import signal, os
    os.kill(int(sys.argv[4]), signal.SIGKILL)
if sys.argv[3] == "dropped":
    del producer
"""


def forget(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", FORGOTTEN, *arguments],
        timeout=40,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("how", ["plain", "dropped", "fork"])
def test_a_producer_that_was_not_closed_sends_at_the_end_of_the_program_and_warns(
    bootstrap: str, topic: str, how: str
) -> None:
    create(bootstrap, topic)
    done = forget(bootstrap, topic, how)
    assert done.returncode == 0
    assert done.stderr.count("a Producer was not closed; 5 records were waiting") == 1
    assert "Traceback" not in done.stderr
    assert [record.value for record in read(bootstrap, topic, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_program_ends_though_its_forgotten_records_cannot_be_sent(
    fresh_broker: Any, topic: str
) -> None:
    broker = fresh_broker()
    create(broker.address, topic)
    began = time.monotonic()
    done = forget(broker.address, topic, "kill", str(broker.pid))
    assert time.monotonic() - began < 30
    assert done.returncode == 0
    assert "5 records were waiting" in done.stderr
    assert "5 records were not delivered" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_close_waits_for_the_one_under_way(fresh_broker: Any, topic: str) -> None:
    broker = fresh_broker()
    create(broker.address, topic)
    producer = Producer(bootstrap_servers=broker.address)
    producer.start()
    producer.send_and_wait(topic, b"x")
    broker.kill()
    sent = producer.send(topic, b"y", on_delivery=lambda *_: None)
    first = threading.Thread(target=lambda: producer.close(timeout_ms=1_000))
    first.start()
    while not producer._is_closed:
        time.sleep(0.01)
    time.sleep(0.05)
    producer.close()
    assert sent.done()
    first.join(timeout=20)
