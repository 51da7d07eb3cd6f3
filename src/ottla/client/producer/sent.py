"""The result of `send`: gives access to the outcome of one record."""

from __future__ import annotations

from asyncio import InvalidStateError
from collections.abc import Callable, Generator
from typing import Any

from ottla.client.producer.batching.batch import Observer, OnDelivery, ProducerBatch
from ottla.client.values import RecordMetadata


class Sent:
    """`await` it for the `RecordMetadata` or the error; several tasks may do so, at any time."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        return self._batch.done or self._batch.where(self._index)[0].done

    def result(self) -> RecordMetadata:
        """Return the record's metadata. Raises if it was not delivered, or has no outcome yet."""
        outcome = self._outcome()
        if isinstance(outcome, Exception):
            # Otherwise every caller would add to the traceback of earlier ones.
            raise outcome.with_traceback(None)
        return outcome

    def exception(self) -> Exception | None:
        outcome = self._outcome()
        return outcome if isinstance(outcome, Exception) else None

    def add_done_callback(self, callback: Callable[[Sent], object]) -> None:
        """Call `callback` with this object; at once if it is done."""
        batch, index = self._batch.where(self._index)
        if batch.done:
            batch.mark_seen(index)
            callback(self)
        else:
            self.on_delivery(lambda *_: callback(self))

    def on_delivery(self, call: OnDelivery) -> None:
        """Call with the metadata or the error; the outcome then counts as seen."""
        batch, index = self._batch.where(self._index)
        batch.mark_seen(index)
        self.observe(call)

    def observe(self, call: OnDelivery) -> None:
        """Call in the same way, without marking the outcome as seen."""
        batch, index = self._batch.where(self._index)
        batch.observe(Observer(index, self._timestamp, call))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            batch, _ = self._batch.where(self._index)
            if batch.done:
                return self.result()
            yield from batch.change().__await__()

    def _outcome(self) -> RecordMetadata | Exception:
        batch, index = self._batch.where(self._index)
        if not batch.done:
            raise InvalidStateError("the record has no outcome yet: await it")
        if batch.error is not None:
            batch.mark_seen(index)
        return batch.outcome(index, self._timestamp)

    def __repr__(self) -> str:
        batch, index = self._batch.where(self._index)
        if not batch.done:
            return f"<Sent to {batch.partition}, no outcome yet>"
        outcome = batch.outcome(index, self._timestamp)
        return f"<Sent to {batch.partition}: {outcome!r}>"
