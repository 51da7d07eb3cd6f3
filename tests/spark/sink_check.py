"""What goes into a crash story, what comes out, and what must hold between the two."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from exactly_once_check import Seen, read_to_end, reader, seen
from process_notes import KEEP_BROKERS

from ottla import ListedTransaction
from ottla.blocking import Admin

WAIT_S = 240.0
KEYS = 12


class Input:
    """Numbered records with keys, in the order in which they were sent."""

    def __init__(self, address: str, topic: str, chance: random.Random) -> None:
        self.topic = topic
        self.chance = chance
        self.sent: list[tuple[str, str]] = []
        self.by_partition: dict[int, dict[int, str]] = defaultdict(dict)
        """Keys by offset."""
        self._producer = Producer(
            {"bootstrap.servers": address, "linger.ms": 2, "log_level": 0, **KEEP_BROKERS}
        )

    def feed(self, count: int) -> None:
        for _ in range(count):
            key = f"key-{self.chance.randrange(KEYS)}"
            value = str(len(self.sent))
            self.sent.append((key, value))
            self._producer.produce(self.topic, key=key, value=value, on_delivery=self._note)
        assert self._producer.flush(WAIT_S) == 0, "the broker takes no records"

    def _note(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, partition, offset = message.key(), message.partition(), message.offset()
        assert isinstance(key, bytes)
        assert partition is not None
        assert offset is not None
        self.by_partition[partition][offset] = key.decode()


class Output:
    """What a query has written, read along with `read_committed` from the first moment on, with a
    client that is not under test. Of a copy: each record once, in its order."""

    kind = "copy"

    def __init__(self, address: str, topic: str, partitions: int, checkpoint: Path) -> None:
        self.address, self.topic, self.partitions = address, topic, partitions
        self.checkpoint = checkpoint
        self.found: list[Seen] = []
        self._consumer = reader(address, topic, partitions)

    def read(self, within_s: float = 0.02) -> None:
        for message in self._consumer.consume(1000, within_s):
            error = message.error()
            if error is None:
                self.found.append(seen(message))
            elif error.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                raise AssertionError(error)

    def close(self) -> None:
        self._consumer.close()

    def has_all(self, given: Input) -> bool:
        return len({one.value for one in self.found}) == len(given.sent)

    def check(self, given: Input) -> None:
        check_once(self.found, Counter(given.sent))
        check_order(self.found, given.sent)

    def check_anew(self) -> None:
        """Who begins to read now sees what was seen by who read along."""
        found = read_to_end(self.address, self.topic, self.partitions)
        assert found == sorted(self.found), f"{len(found)} records now, {len(self.found)} before"


class Counts(Output):
    """By foreachBatch in update mode: of each batch, the new count of each key in it."""

    kind = "count"

    def has_all(self, given: Input) -> bool:
        newest: dict[str, int] = {}
        for one in self.found:
            newest[one.key] = max(newest.get(one.key, 0), int(one.value.split()[1]))
        return sum(newest.values()) == len(given.sent)

    def check(self, given: Input) -> None:
        check_once(self.found, expected_counts(given, self.checkpoint))


def check_once(found: Iterable[Seen], expected: Counter[tuple[str, str]]) -> None:
    """Each record once, by key and value."""
    got = Counter((one.key, one.value) for one in found)
    twice = {pair: count for pair, count in got.items() if count > expected[pair]}
    missing = expected - got
    assert not twice, f"{len(twice)} records came too often: {sorted(twice.items())[:10]}"
    assert not missing, f"{len(missing)} records are missing: {sorted(missing)[:10]}"


def check_order(found: Iterable[Seen], sent: list[tuple[str, str]]) -> None:
    """Of each key, in the order in which it was sent."""
    expected, got = defaultdict(list), defaultdict(list)
    for key, value in sent:
        expected[key].append(value)
    for one in sorted(found):
        got[one.key].append(one.value)
    for key, values in expected.items():
        assert got[key] == values, f"the order of {key} has changed"


def expected_counts(given: Input, checkpoint: Path) -> Counter[tuple[str, str]]:
    """What each batch has to tell of its keys, by the offsets that Spark has planned for it."""
    expected: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    before: dict[str, int] = {}
    for batch, ends in enumerate(_planned(checkpoint, given.topic)):
        touched: Counter[str] = Counter()
        for partition, end in ends.items():
            records = given.by_partition[int(partition)]
            touched.update(records[at] for at in range(before.get(partition, 0), end))
        counts += touched
        expected.update((key, f"{batch} {counts[key]}") for key in touched)
        before = {**before, **ends}
    assert counts.total() == len(given.sent), "Spark has not planned to read everything"
    return expected


def _planned(checkpoint: Path, topic: str) -> list[dict[str, int]]:
    names = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    assert names == list(range(len(names))), names
    lines = [(checkpoint / "offsets" / str(name)).read_text().splitlines() for name in names]
    return [json.loads(offsets)[topic] for _, _, offsets in lines]


def open_transactions(address: str) -> list[ListedTransaction]:
    with Admin(bootstrap_servers=address) as admin:
        return admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])


def check_nothing_open(address: str) -> None:
    """No transaction hangs: none is under way, and none holds up readers of what is committed."""
    deadline = time.monotonic() + WAIT_S
    # A commit has been decided before its markers are written.
    while found := open_transactions(address):
        is_ending = all(one.state != "Ongoing" for one in found)
        assert is_ending, f"transactions are left open: {found}"
        assert time.monotonic() < deadline, f"transactions do not end: {found}"
        time.sleep(0.05)
    with Admin(bootstrap_servers=address) as admin:
        hanging = admin.find_hanging_transactions(idle_ms=0)
    assert not hanging, f"the broker has transactions that no coordinator knows: {hanging}"
