"""Transactions and their producers as administration sees them."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.values import TopicPartition


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class FencedProducer(NamedTuple):
    """What a transactional id stands for after its producers were shut out."""

    producer_id: int
    producer_epoch: int


class ActiveProducer(NamedTuple):
    """A producer as a partition knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_since_offset: int | None
    """The first offset of its open transaction, if one is open."""


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition and that no coordinator will ever end."""

    producer: ActiveProducer
    transactional_id: str | None
    """Where it is known."""
