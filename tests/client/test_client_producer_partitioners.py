"""Keys go where other clients send them; the rest is spread well."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from confluent_kafka import Producer as ConfluentProducer
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python
from producer_tools import create_topic, read, run

from ottla.client.errors import BadSetting
from ottla.client.producer.producer import Producer
from ottla.client.producer.routing.partitioners import (
    PartitionChoices,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyChoice,
    partition_for_key,
    partitioner_of,
    weighted_choice,
)
from ottla.records.engine import murmur2

# Hashes that Java's client is known to give, as signed 32-bit numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
PARTITIONS = 7


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_murmur2_agrees_with_javas_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=200))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == murmur2_of_kafka_python(key) & 0x7FFFFFFF


@given(st.binary(max_size=50), st.integers(min_value=1, max_value=100))
def test_a_key_always_has_a_partition_and_the_same_one(key: bytes, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count
    assert partition_for_key(key, count) == partition_for_key(key, count)


def test_keys_go_where_confluent_kafka_sends_them(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    keys = [b"", *(b"%d" % number * (number % 5 + 1) for number in range(500))]
    other = ConfluentProducer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys[1:]:  # to librdkafka an empty key is none
        other.produce(topic, b"theirs", key)
    other.flush(20)

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as sender:
            for key in keys:
                await sender.send(topic, b"ours", key)

    run(main)
    places: dict[bytes, set[int]] = {}
    for partition, records in read(bootstrap, topic, PARTITIONS).items():
        for record in records:
            places.setdefault(record.key or b"", set()).add(partition)
    assert places.keys() == set(keys)
    assert all(len(each) == 1 for each in places.values())


def spread(bootstrap: str, topic: str, **options: object) -> Counter[int]:
    """How many of 700 records, each in a batch of its own, go where."""
    create_topic(bootstrap, topic, PARTITIONS)

    async def main() -> None:
        async with Producer(
            bootstrap_servers=bootstrap,
            batch_size=1,
            **options,  # type: ignore[arg-type]
        ) as sender:
            for _ in range(700):
                await sender.send(topic, b"x", b"always the same")

    run(main)
    found = read(bootstrap, topic, PARTITIONS)
    return Counter({partition: len(records) for partition, records in found.items()})


def test_round_robin_takes_turns(bootstrap: str, topic: str) -> None:
    counts = spread(bootstrap, topic, partitioner=RoundRobinPartitioner())
    assert set(counts.values()) == {100}


def test_random_takes_any(bootstrap: str, topic: str) -> None:
    counts = spread(bootstrap, topic, partitioner=RandomPartitioner())
    assert min(counts.values()) > 50


def test_keys_can_be_ignored(bootstrap: str, topic: str) -> None:
    counts = spread(bootstrap, topic, partitioner_ignore_keys=True)
    assert min(counts.values()) > 50


def test_a_function_may_choose(bootstrap: str, topic: str) -> None:
    counts = spread(bootstrap, topic, partitioner=lambda topic, key, value, partitions: 3)
    assert counts[3] == 700


def test_an_object_of_the_application_may_choose_and_hears_of_full_batches(
    bootstrap: str, topic: str
) -> None:
    closed: list[tuple[str, int]] = []

    class Mine:
        def partition(
            self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
        ) -> int:
            assert partitions.count == len(partitions.available) == PARTITIONS
            return 2

        def batch_closed(self, topic: str, partition: int) -> None:
            closed.append((topic, partition))

    assert spread(bootstrap, topic, partitioner=Mine())[2] == 700
    assert set(closed) == {(topic, 2)}


def test_a_choice_that_is_no_partition_is_refused(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, partitioner=lambda *_: 99) as sender:
            with pytest.raises(ValueError, match="chose 99"):
                await sender.send(topic, b"x")
            await sender.send_and_wait(topic, b"x", partition=0)

    run(main)


def test_a_partitioner_must_be_something_to_call() -> None:
    with pytest.raises(BadSetting, match="partitioner"):
        partitioner_of(5)


class Loads:
    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def queue_sizes(self) -> tuple[range, tuple[int, ...]]:
        return range(len(self.sizes)), self.sizes


def sticky(*sizes: int, adaptive: bool = True) -> StickyChoice:
    return StickyChoice(Loads(*sizes), random.Random(1), adaptive=adaptive)


def test_records_without_a_key_stay_until_a_batchs_worth_is_produced() -> None:
    choice = sticky(0, 0, 0, 0)
    choice.produced = 900
    assert not choice.moves_rather_than_open(99, 1000)
    assert choice.moves_rather_than_open(100, 1000)
    assert choice.produced == 0


def test_a_batch_that_is_not_full_is_filled_before_moving_on() -> None:
    choice = sticky(0, 0, 0, 0)
    choice.produced = 1500
    choice.enough(1000, batch_is_full=False)
    assert choice.produced == 1500
    choice.enough(1000, batch_is_full=True)
    assert choice.produced == 0
    choice.produced = 2000
    choice.enough(1000, batch_is_full=False)
    assert choice.produced == 0


def chosen(choice: StickyChoice, times: int = 3000) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _ in range(times):
        choice.move()
        counts[choice.current] += 1
    return counts


def test_every_partition_gets_its_share() -> None:
    assert min(chosen(sticky(0, 0, 0)).values()) > 850


def test_partitions_with_long_queues_are_chosen_less() -> None:
    counts = chosen(sticky(0, 3, 1), 8000)  # weights 4, 1, 3
    assert 3700 < counts[0] < 4300
    assert 800 < counts[1] < 1200
    assert 2700 < counts[2] < 3300


def test_queues_do_not_matter_unless_the_choice_is_adaptive() -> None:
    assert min(chosen(sticky(0, 50, 1, adaptive=False)).values()) > 850


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers())
def test_a_weighted_choice_is_always_one_of_the_partitions(sizes: list[int], seed: int) -> None:
    partitions = [10 + at for at in range(len(sizes))]
    assert weighted_choice(partitions, sizes, random.Random(seed)) in partitions


def test_brokers_that_take_nothing_are_left_out_if_that_is_wanted(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)

    async def main() -> None:
        async with Producer(
            bootstrap_servers=bootstrap, partitioner_availability_timeout_ms=50
        ) as sender:
            await sender.partitions_for(topic)
            route = sender._running().routes.all[topic]
            for queue in route.queues[:2]:
                queue.leader = 99
            lane = sender._running().sender._lane(99)
            lane.stuck_since = 0.0
            assert list(route.queue_sizes()[0]) == [2, 3]
            lane.moves()
            assert list(route.queue_sizes()[0]) == [0, 1, 2, 3]
            for queue in route.queues[:2]:
                queue.leader = route.queues[2].leader

    run(main)
