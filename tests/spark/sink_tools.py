"""Tasks and drivers of the sink without Spark: its own functions, called as Spark would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from ottla.blocking import Admin, Consumer
from ottla.client.values import AnyRecord, TopicPartition
from ottla.spark.sink import committing
from ottla.spark.sink.connection import connected
from ottla.spark.sink.decisions import Write
from ottla.spark.sink.ledger import BrokerLedger
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import Rows
from ottla.spark.sink.task_writer import Place, TaskMessage, write_once

T = TypeVar("T")

FIRST, SECOND, THIRD = "00000001", "00000002", "00000003"
"""Runs."""


class Sink:
    """One application that writes to one topic; each test has its own topic of decisions."""

    def __init__(self, bootstrap: str, topic: str, **more: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.decisions = f"{topic}.decisions"
        given = {"topic": topic, "kafka.bootstrap.servers": bootstrap, **more}
        self.options = SinkOptions.read({"decisionsTopic": self.decisions, **given}, streaming=True)
        self.app = f"app-{topic}"

    def place(self, version: int, task: int = 0, run: str = FIRST, attempt: int = 0) -> Place:
        return Place(self.app, run, version, version, task, attempt)

    def task(
        self, version: int, task: int = 0, run: str = FIRST, attempt: int = 0, rows: int = 2
    ) -> TaskMessage:
        """The rows of a task are the same in each run."""
        values = [f"{version}/{task}/{number}" for number in range(rows)]
        batch = pa.record_batch({"value": values})
        place = self.place(version, task, run, attempt)
        return write_once(self.options, Rows(("value",), self.topic), place, [batch])

    def write(self, version: int, messages: Sequence[TaskMessage], run: str = FIRST) -> Write:
        return Write(
            self.app,
            version,
            version,
            run,
            tuple(part for one in messages for part in one.parts),
            given_up_count=min((one.given_up_count for one in messages if one.prepared), default=0),
            complete=not any(one.left_out for one in messages),
        )

    def drive(self, work: Callable[[BrokerLedger], Awaitable[T]]) -> T:
        with connected(self.options) as connection:
            ledger = BrokerLedger(connection.cluster, self.options, self.app)
            with connection.using(ledger):
                return connection.call(lambda: work(ledger))

    def commit(self, version: int, messages: Sequence[TaskMessage], run: str = FIRST) -> None:
        write = self.write(version, messages, run)
        self.drive(lambda ledger: committing.commit(ledger, write, self.options.lost))

    def abort(self, version: int, messages: Sequence[TaskMessage], run: str = FIRST) -> None:
        write = self.write(version, messages, run)
        self.drive(lambda ledger: committing.abort(ledger, write))

    def batch(self, version: int, tasks: int = 2, run: str = FIRST) -> None:
        self.commit(version, [self.task(version, task, run) for task in range(tasks)], run)

    # What others see

    def values(self) -> list[str]:
        return sorted(record.value.decode() for record in committed(self.bootstrap, self.topic))

    def open_ids(self) -> list[str]:
        return open_ids(self.bootstrap, self.app)


def expected(*versions: int, tasks: int = 2, rows: int = 2) -> list[str]:
    return sorted(
        f"{version}/{task}/{number}"
        for version in versions
        for task in range(tasks)
        for number in range(rows)
    )


def committed(bootstrap: str, topic: str) -> list[AnyRecord]:
    """All that a reader of committed records finds, up to the last stable offset."""
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False
    ) as reader:
        places = [TopicPartition(topic, one) for one in reader.partitions_for_topic(topic)]
        reader.assign(places)
        reader.seek_to_beginning(*places)
        ends, found = reader.end_offsets(places), list[AnyRecord]()
        while any(reader.position(place) < ends[place] for place in places):
            for records in reader.poll(50).values():
                found += records
        return found


def open_ids(bootstrap: str, app: str = "") -> list[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for one in found if app in one.transactional_id]
