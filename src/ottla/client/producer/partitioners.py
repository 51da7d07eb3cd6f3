"""Which partition a record goes to, where the application did not say.

The default is Kafka's: keys by murmur2, so that all clients agree; records without a key stick to
one partition until a batch of them is on its way, then move on (KIP-794), to partitions with long
queues less often than to others. A key of no bytes is a key.
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
    """The partitions of a topic, as known now."""

    count: int
    available: Sequence[int]
    """Those that have a leader now, in order; may be empty."""
    random: Random
    """Chance, from the one source the producer has."""


class Partitioner(Protocol):
    """One object serves all topics of a producer."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
    ) -> int:
        """A number below `partitions.count`. Key and value are serialized."""
        ...

    def batch_closed(self, topic: str, partition: int) -> None:
        """A batch for this partition is full or leaves: a good moment to move on."""
        ...


PartitionFunction = Callable[[str, bytes | None, bytes | None, PartitionChoices], int]


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Where every Kafka client sends this key."""
    return (murmur2(key) & _POSITIVE) % partition_count


class RoundRobinPartitioner:
    """One record to each partition in turn, keys or not; those without a leader are passed over."""

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
    """Any partition that has a leader, each time anew, keys or not."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: PartitionChoices
    ) -> int:
        if partitions.available:
            return partitions.random.choice(partitions.available)
        return partitions.random.randrange(partitions.count)

    def batch_closed(self, topic: str, partition: int) -> None:
        pass


class _Function:
    """A plain function in the place of a partitioner."""

    def __init__(self, function: PartitionFunction) -> None:
        self.partition = function

    def batch_closed(self, topic: str, partition: int) -> None:
        pass


def partitioner_of(setting: Any) -> Partitioner | None:
    """What the setting `partitioner` means; None is the default of this module."""
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
    """What the sticky choice asks of the producer when it moves on."""

    def queue_sizes(self) -> tuple[Sequence[int], Sequence[int]]:
        """Partitions to choose from, and how many batches wait for each."""
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
        """A batch's worth was produced: move on, at the end of a batch if that comes soon."""
        if batch_is_full or self.produced >= 2 * batch_size:
            self.move()

    def moves_rather_than_open(self, size: int, batch_size: int) -> bool:
        """The batch has no room for the record: move on if it would make a batch's worth."""
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
    """The longer a queue, the less likely: the longest has weight 1, an empty one its size + 1."""
    longest = max(sizes) + 1
    sums = list(accumulate(longest - size for size in sizes))
    return partitions[bisect_right(sums, random.randrange(sums[-1]))]
