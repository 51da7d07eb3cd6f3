"""One topic of a producer: its queues, its partitioning, and how much fits into a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from ottla.client.network.metadata import Topic
from ottla.client.producer.batching.partition_queue import NO_LEADER, PartitionQueue
from ottla.client.producer.routing.partitioners import (
    PartitionChoices,
    Partitioner,
    StickyChoice,
    partition_for_key,
)
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.records.header import HEADER_SIZE

RATIO_SAFETY = 1.05
RATIO_BETTER_STEP = 0.005
RATIO_WORSE_STEP = 0.05
PAYLOAD_MIN = 1


class TopicRoute:
    __slots__ = (
        "_batch_size",
        "_compresses",
        "_custom",
        "_is_slow",
        "_random",
        "by_key",
        "choices",
        "count",
        "error_code",
        "payload_limit",
        "queues",
        "ratio",
        "sticky",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        settings: ProducerSettings,
        partitioner: Partitioner | None,
        random: Random,
        is_slow: Callable[[int], bool],
        known: Topic,
    ) -> None:
        """`is_slow` returns whether a broker has taken nothing for too long."""
        self.topic = topic
        self._custom = partitioner
        self._random = random
        self._is_slow = is_slow
        self._batch_size = settings.batch_size
        self._compresses = settings.compression_type not in (None, "none")
        self.by_key = partitioner is None and not settings.partitioner_ignore_keys
        """Whether keys are hashed to partitions."""
        self.queues: list[PartitionQueue] = []
        self.ratio = 1.0
        """The expected compression ratio: compressed size / size."""
        self.payload_limit = 0
        """How many bytes of records to put into a batch."""
        self._set_ratio(1.0)
        self.sticky: StickyChoice | None = None
        self.update(known)
        if partitioner is None:
            self.sticky = StickyChoice(
                self,
                random,
                adaptive=settings.partitioner_adaptive_partitioning_enable,
            )

    # Metadata

    def update(self, known: Topic) -> list[PartitionQueue]:
        """Apply the topic's new metadata, and return the queues whose leader has changed."""
        self.error_code = ErrorCode.of(known.error_code)
        self.topic_id = known.topic_id
        self.count = len(known.partitions)
        for index in range(len(self.queues), self.count):
            self.queues.append(PartitionQueue(TopicPartition(self.topic, index)))
        leaders = [partition.leader for partition in known.partitions]
        available = [index for index, leader in enumerate(leaders) if leader != NO_LEADER]
        self.choices = PartitionChoices(self.count, available, self._random)
        changed = []
        for index, queue in enumerate(self.queues):
            leader = leaders[index] if index < self.count else NO_LEADER
            if queue.leader != leader:
                queue.leader = leader
                changed.append(queue)
        if self.sticky is not None and self.sticky.current >= self.count > 0:
            self.sticky.move()
        return changed

    @property
    def is_usable(self) -> bool:
        return self.count > 0

    # Partitioning

    def chosen(self, key: bytes | None, value: bytes | None) -> int:
        """Return the partition of a record for which none was given."""
        if key is not None and self.by_key:
            return partition_for_key(key, self.count)
        if self._custom is not None:
            return self._checked(self._custom.partition(self.topic, key, value, self.choices))
        assert self.sticky is not None
        return self.sticky.current

    def _checked(self, partition: int) -> int:
        if not 0 <= partition < self.count:
            raise ValueError(
                f"the partitioner chose {partition!r} for {self.topic!r}, "
                f"which has partitions 0 to {self.count - 1}"
            )
        return partition

    def batch_closed(self, partition: int) -> None:
        if self._custom is not None:
            self._custom.batch_closed(self.topic, partition)

    def queue_sizes(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return partitions whose leaders keep up, and their queue sizes, for the sticky choice."""
        candidates: Iterable[int] = self.choices.available or range(self.count)
        quick = [index for index in candidates if not self._is_slow(self.queues[index].leader)]
        partitions = quick or list(candidates)
        queues = self.queues
        sizes = [len(queues[index].waiting) for index in partitions]
        return partitions, sizes

    # Batch size

    def compressed(self, ratio: float) -> None:
        """Update the expected ratio by that of a batch; improvements count only slowly."""
        if ratio > self.ratio:
            self._set_ratio(max(self.ratio + RATIO_WORSE_STEP, ratio))
        elif ratio < self.ratio:
            self._set_ratio(max(self.ratio - RATIO_BETTER_STEP, ratio))

    def was_too_large(self, ratio: float) -> None:
        """Expect no gain from compression for now: a batch was refused for its size."""
        self._set_ratio(max(1.0, ratio))

    def _set_ratio(self, ratio: float) -> None:
        self.ratio = ratio
        room = self._batch_size - HEADER_SIZE
        self.payload_limit = max(
            PAYLOAD_MIN, int(room / (ratio * RATIO_SAFETY)) if self._compresses else room
        )
