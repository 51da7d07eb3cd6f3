"""Copies one topic to another exactly once, until SIGTERM: the application under test.

    python copy_process.py <bootstrap> <source> <target> <partitions> <group>
        <transactional id> <notes> <seed> [setting=value ...]

What it reads in one turn becomes one transaction: the transformed records, and the offsets up to
which they were read. Some transactions it aborts by itself, after their records have reached the
broker. Each record carries the name of the attempt that wrote it, so that a reader can tell which
transaction it belongs to.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from process_notes import KEEP_BROKERS, PATIENCE_S, Notes, ended_by, patiently

TURN_RECORDS_MAX = 200
TURN_S = 0.05


class Copy:
    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        partition_count: str,
        group: str,
        name: str,
        notes_path: str,
        seed: str,
        *settings: str,
    ) -> None:
        self.source, self.target = source, target
        self.partitions = int(partition_count)
        self.notes = Notes(notes_path)
        self.chance = random.Random(seed)
        self.label = f"{name}.{seed}"
        self.attempts = 0
        self.gathered: list[Message] = []
        self.changed = False
        common = {"bootstrap.servers": bootstrap, **KEEP_BROKERS}
        self.producer = Producer(
            {**common, "transactional.id": name, "transaction.timeout.ms": 8000, "linger.ms": 1}
        )
        self.consumer = Consumer(
            {
                **common,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                **dict(one.split("=", 1) for one in settings),
            }
        )

    def start(self) -> None:
        patiently(lambda: self.producer.init_transactions(PATIENCE_S))
        self.notes.tell("ready")
        self.consumer.subscribe(
            [self.source],
            on_assign=self._owns,
            on_revoke=self._owns_no_more,
            on_lost=self._owns_no_more,
        )

    def _owns(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.changed = True
        self.notes.tell("assigned", [one.partition for one in partitions])

    def _owns_no_more(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {one.partition for one in partitions}
        self.gathered = [one for one in self.gathered if one.partition() not in gone]
        self.changed = True
        self.notes.tell("revoked", sorted(gone))

    def turn(self) -> None:
        # The group's generation in which the first record is read: if it is a later one by the time
        # of the commit, the coordinator refuses the offsets and the transaction is aborted.
        member = self.consumer.consumer_group_metadata()
        self.gathered.clear()
        end = time.monotonic() + TURN_S
        while len(self.gathered) < TURN_RECORDS_MAX and time.monotonic() < end:
            message = self.consumer.poll(0.02)
            if self.changed:
                self.changed = False
                member = self.consumer.consumer_group_metadata()
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.gathered.append(message)
            else:
                self.notes.tell("error", error.str())
        if self.gathered:
            self._copy(list(self.gathered), member)

    def _copy(self, messages: list[Message], member: Any) -> None:
        self.attempts += 1
        attempt = f"{self.label}.{self.attempts}"
        self.notes.tell("begin", attempt, count=len(messages))
        try:
            self.producer.begin_transaction()
            for message in messages:
                self._produce(message, attempt)
            self._linger()
            if self.chance.random() < 0.08:
                self.producer.flush(1.0)
                self._abort(attempt, messages, "by itself")
                return
            ends = {index: offset + 1 for index, offset in map(place, messages)}
            offsets = [TopicPartition(self.source, index, end) for index, end in ends.items()]
            patiently(
                lambda: self.producer.send_offsets_to_transaction(offsets, member, PATIENCE_S)
            )
            self._linger()
            self.notes.tell("committing", attempt)
            patiently(lambda: self.producer.commit_transaction(PATIENCE_S))
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._abort(attempt, messages, failure.args[0].str())
        else:
            self.notes.tell("committed", attempt)

    def _produce(self, message: Message, attempt: str) -> None:
        key, number = message.key(), message.value()
        assert key is not None
        # Another partition than the one it came from: transactions span several.
        partition = (int(key.rpartition(b"-")[2]) // 2) % self.partitions
        self.producer.produce(self.target, b"%s %s" % (number, attempt.encode()), key, partition)

    def _linger(self) -> None:
        """Sometimes long enough to be killed, stopped or replaced in the midst of it."""
        if self.chance.random() < 0.3:
            time.sleep(self.chance.uniform(0.0, 0.15))

    def _abort(self, attempt: str, messages: list[Message], reason: str) -> None:
        patiently(lambda: self.producer.abort_transaction(PATIENCE_S))
        self.notes.tell("aborted", attempt, reason=reason)
        firsts: dict[int, int] = {}
        for message in messages:
            firsts.setdefault(*place(message))
        owned = {one.partition for one in self.consumer.assignment()}
        for partition, offset in firsts.items():
            if partition in owned:
                self.consumer.seek(TopicPartition(self.source, partition, offset))


def place(message: Message) -> tuple[int, int]:
    """Partition and offset of a record that was read."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def main(arguments: list[str]) -> int:
    copy = Copy(*arguments)
    stopping: list[Any] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    try:
        copy.start()
        while not stopping:
            copy.turn()
        copy.consumer.close()
    except KafkaException as failure:
        code = ended_by(copy.notes, failure)
        copy.consumer.close()
        return code
    copy.notes.tell("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
