"""Keys go to the partitions that Java's client would choose."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_another_client

from ottla.client.partitioner import StickyPartitioner, murmur2, partition_for_key

# Hashes that Java's client is known to give, as signed 32-bit numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_murmur2_agrees_with_javas_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=200))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == murmur2_of_another_client(key) & 0x7FFFFFFF


@given(st.binary(max_size=50), st.integers(min_value=1, max_value=100))
def test_a_key_always_has_a_partition_and_the_same_one(key: bytes, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count
    assert partition_for_key(key, count) == partition_for_key(key, count)


def test_records_without_a_key_stay_until_the_batch_is_full_and_then_move() -> None:
    partitioner = StickyPartitioner(4, random.Random(1))
    first = partitioner.partition(None)
    assert {partitioner.partition(None) for _ in range(20)} == {first}
    partitioner.batch_full(first)
    assert partitioner.partition(None) != first


def test_a_full_batch_of_another_partition_moves_nothing() -> None:
    partitioner = StickyPartitioner(4, random.Random(1))
    first = partitioner.partition(None)
    partitioner.batch_full((first + 1) % 4)
    assert partitioner.partition(None) == first


def test_every_partition_gets_its_share_of_records_without_a_key() -> None:
    partitioner = StickyPartitioner(3, random.Random(1))
    counts = [0, 0, 0]
    for _ in range(3000):
        partition = partitioner.partition(None)
        counts[partition] += 1
        partitioner.batch_full(partition)
    assert min(counts) > 800


def test_a_topic_of_one_partition_needs_no_choice() -> None:
    partitioner = StickyPartitioner(1, random.Random(1))
    partitioner.batch_full(0)
    assert partitioner.partition(None) == 0
