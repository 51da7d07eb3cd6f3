"""Failures that nobody has looked at yet: they are told at the next good opportunity."""

from __future__ import annotations

from collections import deque

from ottla.client.errors import DeliveryFailed
from ottla.client.producer.batch import ProducerBatch

REMEMBERED_MAX = 1_000


class Failures:
    """Bounded: an application that never flushes is not to run out of memory for it."""

    def __init__(self) -> None:
        self._batches: deque[ProducerBatch] = deque(maxlen=REMEMBERED_MAX)

    def add(self, batch: ProducerBatch) -> None:
        self._batches.append(batch)

    def forget(self) -> None:
        """They are known: the application has aborted the transaction they belong to."""
        self._batches.clear()

    def take_unseen(self) -> list[ProducerBatch]:
        """All of them count as seen then."""
        unseen = [batch for batch in self._batches if batch.has_unseen]
        self._batches.clear()
        return unseen

    def raise_unseen(self) -> None:
        """The first one as `DeliveryFailed`."""
        unseen = self.take_unseen()
        if unseen:
            first = unseen[0]
            assert first.error is not None
            topic, partition = first.partition
            raise DeliveryFailed(topic, partition, first.error) from first.error
