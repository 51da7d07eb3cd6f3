"""Values that describe transactions and their producers in admin results."""

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
    """The producer id and epoch of a transactional id after its earlier producers were fenced."""

    producer_id: int
    producer_epoch: int


class ActiveProducer(NamedTuple):
    """The state of a producer in one partition."""

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
    """None if it is unknown."""
