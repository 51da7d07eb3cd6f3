"""Chooses the partition of a record if the application does not.

The default is Kafka's: keys are hashed by murmur2, so that all clients agree. Records without a key
stay with one partition until a batch of them is full, then move on (KIP-794), less often to
partitions with long queues. An empty key counts as a key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, Protocol

from ottla.client.errors import BadSetting
from ottla.records.engine import murmur2

_POSITIVE = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class PartitionChoices:
    """The currently known partitions of a topic."""

    count: int
    available: Sequence[int]
    """Those that have a leader now, in order; may be empty."""
    random: Random
    """The producer's only source of randomness."""


class Partitioner(Protocol):
    """One object serves all topics of a producer."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
    ) -> int:
        """Return a number below `partitions.count`. Key and value are serialized."""
        ...

    def batch_closed(self, topic: str, partition: int) -> None:
        """Called when a batch for this partition is full or sent: a good moment to move on."""
        ...


PartitionFunction = Callable[[str, bytes | None, bytes | None, PartitionChoices], int]


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition to which every Kafka client sends this key."""
    return (murmur2(key) & _POSITIVE) % partition_count


class RoundRobinPartitioner:
    """Sends records to the partitions in turn, whatever their keys. Partitions without a leader are
    skipped."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        if partitions.available:
            return partitions.available[turn % len(partitions.available)]
        return turn % partitions.count

    def batch_closed(self, topic: str, partition: int) -> None:
        pass


class RandomPartitioner:
    """Sends each record to a random partition that has a leader, with or without a key."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
    ) -> int:
        if partitions.available:
            return partitions.random.choice(partitions.available)
        return partitions.random.randrange(partitions.count)

    def batch_closed(self, topic: str, partition: int) -> None:
        pass


class _Function:
    """Wraps a plain function as a partitioner."""

    def __init__(self, function: PartitionFunction) -> None:
        self.partition = function

    def batch_closed(self, topic: str, partition: int) -> None:
        pass


def partitioner_of(setting: Any) -> Partitioner | None:
    """Return the partitioner that the setting means; None is the default of this module."""
    if setting is None:
        return None
    if hasattr(setting, "partition"):
        return setting if hasattr(setting, "batch_closed") else _Function(setting.partition)
    if not callable(setting):
        raise BadSetting(
            "partitioner", f"{setting!r} is neither a function nor an object with `partition`"
        )
    return _Function(setting)


class Loads(Protocol):
    """The queue sizes that the sticky partitioner asks for when it switches partitions."""

    def queue_sizes(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the partitions to choose from, and how many batches wait for each."""
        ...


class StickyChoice:
    """The partition for records of one topic that have no key (KIP-794)."""

    __slots__ = ("_adaptive", "_loads", "_random", "current", "produced")

    def __init__(self, loads: Loads, random: Random, *, adaptive: bool) -> None:
        self._loads = loads
        self._random = random
        self._adaptive = adaptive
        self.produced = 0
        """Bytes since the last move."""
        self.current = self._chosen()

    def enough(self, batch_size: int, *, batch_is_full: bool) -> None:
        """Move on after a batch's worth of bytes, at the end of a batch if that comes soon."""
        if batch_is_full or self.produced >= 2 * batch_size:
            self.move()

    def moves_rather_than_open(self, size: int, batch_size: int) -> bool:
        """Move on, instead of opening a batch, if the record completes a batch's worth of bytes."""
        if self.produced + size < batch_size:
            return False
        self.move()
        return True

    def move(self) -> None:
        self.produced = 0
        self.current = self._chosen()

    def _chosen(self) -> int:
        partitions, sizes = self._loads.queue_sizes()
        if self._adaptive and len(partitions) > 1 and len(set(sizes)) > 1:
            return weighted_choice(partitions, sizes, self._random)
        return self._random.choice(partitions)


def weighted_choice(partitions: Sequence[int], sizes: Sequence[int], random: Random) -> int:
    """Choose a partition; longer queues are less likely. A partition's weight is the
    size of the longest queue + 1 - the size of its own."""
    longest = max(sizes) + 1
    sums = list(accumulate(longest - size for size in sizes))
    return partitions[bisect_right(sums, random.randrange(sums[-1]))]
