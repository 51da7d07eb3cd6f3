"""The blocking consumer against a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from admin_tools import fill
from bench.brokers import Broker

from ottla.blocking.admin import Admin
from ottla.blocking.consumer import Consumer
from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.errors import IllegalState, Wakeup
from ottla.client.values import OffsetAndMetadata, TopicPartition


def prepare(broker: Broker, topic: str, count: int, partitions: int = 1) -> TopicPartition:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topic(topic, partitions=partitions)
    fill(broker.address, topic, 0, count)
    return TopicPartition(topic, 0)


def member(broker: Broker, topic: str, **options: object) -> Consumer:
    return Consumer(
        topic,
        **{
            "bootstrap_servers": broker.address,
            "group_id": topic,
            "auto_offset_reset": "earliest",
            **options,
        },
    )


def test_records_come_by_iteration_and_the_one_in_hand_is_not_committed(
    group_broker: Broker, topic: str
) -> None:
    one = prepare(group_broker, topic, 1_000)

    def fail_at(offset: int) -> None:
        with member(group_broker, topic) as consumer:
            for record in consumer:
                assert isinstance(record.value, bytes)
                if record.offset == offset:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at(700)
    with Admin(bootstrap_servers=group_broker.address) as admin:
        assert admin.list_group_offsets(topic)[one].offset == 700
    with member(group_broker, topic) as consumer:
        values = []
        for record in consumer:
            values.append(int(record.value))
            if record.offset == 999:
                break
    assert values == list(range(700, 1_000))
    with Admin(bootstrap_servers=group_broker.address) as admin:
        assert admin.list_group_offsets(topic)[one].offset == 1_000


def test_polls_commits_and_positions(group_broker: Broker, topic: str) -> None:
    one = prepare(group_broker, topic, 10)
    with member(group_broker, topic, enable_auto_commit=False) as consumer:
        found = {}
        while not found:
            found = consumer.poll(1_000, max_records=4)
        assert [record.offset for record in found[one]] == [0, 1, 2, 3]
        assert consumer.assignment() == {one}
        assert consumer.position(one) == 4
        consumer.commit({one: 3})
        assert consumer.committed([one]) == {one: OffsetAndMetadata(3)}
        consumer.seek(one, 8)
        assert [record.offset for record in consumer.poll(5_000)[one]] == [8, 9]
        consumer.pause(one)
        assert consumer.paused() == {one}
        assert consumer.poll(100) == {}
        consumer.resume(one)
        consumer.seek_to_beginning()
        assert consumer.getone().offset == 0
        assert consumer.end_offsets([one]) == {one: 10}
        assert consumer.metrics()["records-consumed-total"] > 0
        assert consumer.group_metadata().group_id == topic


def test_batches_are_lists_of_one_partition(group_broker: Broker, topic: str) -> None:
    prepare(group_broker, topic, 100)
    seen = 0
    with member(group_broker, topic) as consumer:
        for batch in consumer.batches(max_records=30):
            assert 0 < len(batch) <= 30
            seen += len(batch)
            if seen == 100:
                break


class Notes(RebalanceListener):
    """Commits from inside the listener, as applications do."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.threads: list[tuple[str, int]] = []

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.threads.append(("assigned", threading.get_ident()))

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.consumer is not None
        self.consumer.commit(dict.fromkeys(partitions, 5))
        self.threads.append(("revoked", threading.get_ident()))


def test_a_listener_runs_in_the_thread_that_waits_and_may_commit(
    group_broker: Broker, topic: str
) -> None:
    one = prepare(group_broker, topic, 10)
    notes = Notes()
    consumer = member(group_broker, topic, enable_auto_commit=False)
    consumer.subscribe([topic], listener=notes)
    notes.consumer = consumer
    with consumer:
        while not consumer.poll(1_000):
            pass
        consumer.unsubscribe()
    here = threading.get_ident()
    assert notes.threads == [("assigned", here), ("revoked", here)]
    with Admin(bootstrap_servers=group_broker.address) as admin:
        assert admin.list_group_offsets(topic)[one].offset == 5


def test_callbacks_of_commits_run_in_the_thread_that_waits(
    group_broker: Broker, topic: str
) -> None:
    one = prepare(group_broker, topic, 10)
    told: list[tuple[object, object, int]] = []
    with member(group_broker, topic, enable_auto_commit=False) as consumer:
        while not consumer.poll(1_000):
            pass
        consumer.commit_async(
            {one: 4}, lambda at, error: told.append((dict(at), error, threading.get_ident()))
        )
        deadline = time.monotonic() + 10
        while not told and time.monotonic() < deadline:
            consumer.poll(50)
    assert told == [({one: OffsetAndMetadata(4)}, None, threading.get_ident())]


def test_wakeup_from_another_thread_ends_a_wait(group_broker: Broker, topic: str) -> None:
    prepare(group_broker, topic, 0)
    with member(group_broker, topic) as consumer:
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        with pytest.raises(Wakeup):
            consumer.poll(30_000)
        timer.join()


def test_ctrl_c_leaves_the_loop_and_the_group(group_broker: Broker, topic: str) -> None:
    one = prepare(group_broker, topic, 3)
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    seen: list[int] = []

    def read_on() -> None:
        with member(group_broker, topic) as consumer:
            timer.start()
            seen.extend(record.offset for record in consumer)

    with pytest.raises(KeyboardInterrupt):
        read_on()
    timer.join()
    assert seen == [0, 1, 2]
    with Admin(bootstrap_servers=group_broker.address) as admin:
        assert admin.list_group_offsets(topic)[one].offset == 3
        assert not admin.describe_group(topic).members


def test_a_second_thread_is_refused_while_one_waits(group_broker: Broker, topic: str) -> None:
    prepare(group_broker, topic, 0)
    with member(group_broker, topic) as consumer:
        waiting = threading.Thread(target=lambda: consumer.poll(1_500))
        waiting.start()
        time.sleep(0.3)
        with pytest.raises(IllegalState, match="another thread"):
            consumer.poll(0)
        waiting.join()


def test_closing_from_another_thread_ends_the_loop(group_broker: Broker, topic: str) -> None:
    prepare(group_broker, topic, 3)
    consumer = member(group_broker, topic)
    consumer.start()
    timer = threading.Timer(1.0, consumer.close)
    timer.start()
    assert [record.offset for record in consumer] == [0, 1, 2]
    timer.join()


def test_records_are_worked_on_in_parallel(group_broker: Broker, topic: str) -> None:
    one = prepare(group_broker, topic, 50)
    done: list[int] = []

    def handle(record: object) -> None:
        done.append(record.offset)  # type: ignore[attr-defined]
        if len(done) == 50:
            consumer.wakeup()

    with member(group_broker, topic) as consumer:
        consumer.process(handle, concurrency=4)
    assert sorted(done) == list(range(50))
    with Admin(bootstrap_servers=group_broker.address) as admin:
        assert admin.list_group_offsets(topic)[one].offset == 50


def test_columns_come_without_await(group_broker: Broker, topic: str) -> None:
    pytest.importorskip("pyarrow")
    prepare(group_broker, topic, 20)
    with member(group_broker, topic) as consumer:
        rows = 0
        for batch in consumer.arrow_batches():
            rows += batch.num_rows
            if rows == 20:
                break
        assert consumer.fetch_arrow(0).num_rows == 0


class Slow(RebalanceListener):
    """Closes too, which must not wait for itself, and takes its time."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.is_closing = threading.Event()
        self.is_done = False

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.consumer is not None
        self.is_closing.set()
        self.consumer.close()
        time.sleep(0.3)
        self.is_done = True


def test_closing_while_another_thread_closes_waits_for_the_end(
    group_broker: Broker, topic: str
) -> None:
    prepare(group_broker, topic, 1)
    listener = Slow()
    options = {"bootstrap_servers": group_broker.address, "group_id": topic}
    listener.consumer = consumer = Consumer(topic, listener=listener, **options)
    consumer.start()
    while not consumer.assignment():
        consumer.poll(100)
    first = threading.Thread(target=consumer.close)
    first.start()
    assert listener.is_closing.wait(20)
    consumer.close()
    assert listener.is_done
    first.join(20)
    assert not first.is_alive()


CLOSED_BY = {
    "atexit": "import atexit; atexit.register(consumer.close)",
    "a thread that outlives the main one": """
def later():
    time.sleep(0.3)
    consumer.poll(100)
    consumer.close()
threading.Thread(target=later).start()
""",
    "two threads": "threading.Thread(target=consumer.close).start(); consumer.close()",
    "nobody": "",
}


@pytest.mark.parametrize("closed_by", CLOSED_BY)
def test_a_consumer_may_be_closed_while_the_interpreter_ends(
    group_broker: Broker, topic: str, closed_by: str
) -> None:
    prepare(group_broker, topic, 1)
    program = f"""
import threading, time
from ottla.blocking import Consumer
consumer = Consumer({topic!r}, bootstrap_servers={group_broker.address!r}, group_id={topic!r})
consumer.start()
consumer.poll(100)
{CLOSED_BY[closed_by]}
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_listener_is_looked_at_before_anything_starts() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="listener=5 is not a RebalanceListener"):
        Consumer("a", listener=wrong)
    with pytest.raises(TypeError, match="listener=5 is not a RebalanceListener"):
        Consumer().subscribe(["a"], listener=wrong)


def test_a_thread_with_nothing_to_read_does_not_wait(group_broker: Broker) -> None:
    with (
        Consumer(bootstrap_servers=group_broker.address) as consumer,
        pytest.raises(IllegalState, match=r"subscribe\(\) or assign\(\) first"),
    ):
        next(consumer)
