"""Keeps failures that the application has not seen yet, to report them at the next call."""

from __future__ import annotations

from collections import deque

from ottla.client.errors import DeliveryFailed
from ottla.client.producer.batching.batch import ProducerBatch

REMEMBERED_MAX = 1_000


class Failures:
    """Bounded, so that an application that never flushes does not run out of memory."""

    def __init__(self) -> None:
        self._batches: deque[ProducerBatch] = deque(maxlen=REMEMBERED_MAX)

    def add(self, batch: ProducerBatch) -> None:
        self._batches.append(batch)

    def forget(self) -> None:
        """Drop them: the application has aborted the transaction they belong to."""
        self._batches.clear()

    def take_unseen(self) -> list[ProducerBatch]:
        """Return the unseen failures; all of them count as seen afterwards."""
        unseen = [batch for batch in self._batches if batch.has_unseen]
        self._batches.clear()
        return unseen

    def raise_unseen(self) -> None:
        """Raise the first unseen failure as `DeliveryFailed`."""
        unseen = self.take_unseen()
        if unseen:
            first = unseen[0]
            assert first.error is not None
            topic, partition = first.partition
            raise DeliveryFailed(topic, partition, first.error) from first.error
