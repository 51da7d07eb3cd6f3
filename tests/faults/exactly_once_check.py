"""What must hold at the end of the exactly-once story, whoever was killed in it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from process_notes import KEEP_BROKERS

if TYPE_CHECKING:
    from exactly_once import Story

CATCH_UP_S = 60.0
READ_S = 30.0


class Seen(NamedTuple):
    partition: int
    offset: int
    key: str
    value: str


def reader(address: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # To be sent elsewhere than to the next record would be an error of the broker.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            **KEEP_BROKERS,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return consumer


def seen(message: Any) -> Seen:
    place = message.partition(), message.offset()
    return Seen(*place, message.key().decode(), message.value().decode())


def read_to_end(address: str, topic: str, partitions: int) -> list[Seen]:
    consumer = reader(address, topic, partitions)
    found: list[Seen] = []
    ended: set[int] = set()
    deadline = time.monotonic() + READ_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"a reader of {topic} is stuck; ended: {sorted(ended)}"
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found.append(seen(message))
                ended.discard(found[-1].partition)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition = message.partition()
                assert partition is not None
                ended.add(partition)
            else:
                raise AssertionError(error)
    consumer.close()
    return sorted(found)


class LiveReader:
    """Reads along with `read_committed` from the first moment on, over all deaths of the broker."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.found: list[Seen] = []
        self.refused: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(reader(address, topic, partitions),), daemon=True
        )
        self._thread.start()

    def _read(self, consumer: Consumer) -> None:
        while not self._stopped.is_set():
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    self.found.append(seen(message))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.refused.append(error.str())
        consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(10)


def by_key(records: list[Seen]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for one in records:
        numbers.setdefault(one.key, []).append(int(one.value.split()[0]))
    return numbers


def check(story: Story, live: LiveReader) -> dict[str, Any]:
    from exactly_once import PARTITIONS, SOURCE, TARGET

    address = story.broker.address
    fed = read_to_end(address, SOURCE, PARTITIONS)
    for key, numbers in by_key(fed).items():
        assert numbers == list(range(len(numbers))), f"the feed itself is wrong for {key}"
    await_count(story, live, len(fed))
    story.end_copies()
    copied = read_to_end(address, TARGET, PARTITIONS)
    check_once_each_in_order(fed, copied)
    cut_short = check_transactions_are_whole(story, copied)
    assert not live.refused, live.refused
    assert sorted(live.found) == copied, "a reader along the way saw something else than one after"
    check_nothing_is_open(address, (SOURCE, TARGET), PARTITIONS)
    check_offsets(address, fed)
    return {
        "records": len(copied),
        "transactions": len({one.value.split()[1] for one in copied}),
        "aborted_by_copies": dict(aborts(story)),
        **cut_short,
        "fed_transactions": story.feed.said("fed"),
    }


def aborts(story: Story) -> Counter[str]:
    notes = [note for copy in story.copies for note in copy.notes()]
    reasons = [note["reason"] for note in notes if note["what"] == "aborted"]
    return Counter("by itself" if one == "by itself" else "refused" for one in reasons)


def await_count(story: Story, live: LiveReader, count: int) -> None:
    """The reader that reads along gets to the last record without being helped."""
    started = time.monotonic()
    while len(live.found) < count:
        story.replace_the_ended(story.copies)
        assert time.monotonic() < started + CATCH_UP_S, (
            f"{len(live.found)} of {count} records were copied, and no more come"
        )
        time.sleep(0.1)


def check_once_each_in_order(fed: list[Seen], copied: list[Seen]) -> None:
    expected, found = by_key(fed), by_key(copied)
    for key, numbers in expected.items():
        got = found.get(key, [])
        if got != numbers:
            counts = Counter(got)
            twice = sorted(n for n, times in counts.items() if times > 1)
            lost = sorted(set(numbers) - set(got))
            raise AssertionError(
                f"{key}: {len(numbers)} records in, {len(got)} out; twice: {twice[:10]}, "
                f"lost: {lost[:10]}, in order: {got == sorted(got)}"
            )
    assert found.keys() == expected.keys()


def check_transactions_are_whole(story: Story, copied: list[Seen]) -> dict[str, int]:
    """All records of a transaction or none; those that were acknowledged, never the aborted."""
    counts = Counter(one.value.split()[1] for one in copied)
    notes = [note for copy in story.copies for note in copy.notes()]
    sizes = {note["value"]: note["count"] for note in notes if note["what"] == "begin"}
    committed = {note["value"] for note in notes if note["what"] == "committed"}
    aborted = {note["value"] for note in notes if note["what"] == "aborted"}
    assert not aborted & counts.keys(), f"aborted, but read: {aborted & counts.keys()}"
    assert committed <= counts.keys(), f"committed, but not read: {committed - counts.keys()}"
    torn = {name: (count, sizes[name]) for name, count in counts.items() if count != sizes[name]}
    assert not torn, f"transactions of which only a part was read: {torn}"
    unknown = sizes.keys() - committed - aborted
    seen_anyway = len(unknown & counts.keys())
    return {"cut_short": len(unknown), "cut_short_but_committed": seen_anyway}


def check_nothing_is_open(address: str, topics: tuple[str, ...], partitions: int) -> None:
    places = [TopicPartition(topic, index) for topic in topics for index in range(partitions)]
    admin = AdminClient({"bootstrap.servers": address})
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no types

    def ends(level: IsolationLevel) -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(dict.fromkeys(places, latest), isolation_level=level)
        return {(p.topic, p.partition): done.result(READ_S).offset for p, done in answers.items()}

    assert ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED)
    assert ask(address, "find-hanging", "--idle-ms", "0") == []
    assert ask(address, "list", "--state", "Ongoing") == []
    assert ask(address, "list", "--state", "PrepareCommit", "--state", "PrepareAbort") == []


def ask(address: str, *words: str) -> Any:
    program = str(Path(sys.executable).parent / "ottla")
    line = [program, "transactions", *words, "--bootstrap", address, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_offsets(address: str, fed: list[Seen]) -> None:
    """The group stands behind the last record of every partition."""
    from exactly_once import GROUP

    admin = AdminClient({"bootstrap.servers": address})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    answer = asked[GROUP].result(READ_S).topic_partitions
    stored = {one.partition: one.offset for one in answer}
    assert stored == {one.partition: one.offset + 1 for one in fed}
