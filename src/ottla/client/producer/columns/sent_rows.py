"""The result of `send_arrow`: the outcome of all its rows, without an object for each."""

from __future__ import annotations

from asyncio import InvalidStateError
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from ottla.client.producer.batching.batch import NO_OFFSET, ProducerBatch
from ottla.client.values import TopicPartition


class SentRange(NamedTuple):
    """Consecutive rows in a partition. Offsets are -1 if there is no acknowledgement (acks=0)."""

    partition: TopicPartition
    first_offset: int
    last_offset: int
    rows: int


class Slice(NamedTuple):
    """Records `start` to `stop` of a batch."""

    batch: ProducerBatch
    start: int
    stop: int

    def now(self) -> Iterator[Slice]:
        """Yield the batches that hold these records now: a batch may have been split."""
        if self.batch.parts is None:
            yield self
            return
        first = 0
        for part in self.batch.parts:
            start, stop = max(self.start - first, 0), min(self.stop - first, part.count)
            if start < stop:
                yield from Slice(part, start, stop).now()
            first += part.count

    def error(self) -> Exception | None:
        """Return the error of these records, if any, and mark it as seen."""
        error = self.batch.error
        if error is None:
            return None
        for index in range(self.start, self.stop):
            self.batch.mark_seen(index)
        own = self.batch.record_errors or {}
        return next((own[index] for index in range(self.start, self.stop) if index in own), error)

    def where(self) -> SentRange:
        rows, base = self.stop - self.start, self.batch.base_offset
        if base == NO_OFFSET:
            return SentRange(self.batch.partition, NO_OFFSET, NO_OFFSET, rows)
        return SentRange(self.batch.partition, base + self.start, base + self.stop - 1, rows)


class SentRows:
    """`await` it for the list of `SentRange` or the first error; several tasks may do so."""

    __slots__ = ("_slices", "rows")

    def __init__(self) -> None:
        self._slices: list[Slice] = []
        self.rows = 0
        """How many rows were sent."""

    def add(self, batch: ProducerBatch, start: int, stop: int) -> None:
        self._slices.append(Slice(batch, start, stop))
        self.rows += stop - start

    def done(self) -> bool:
        return all(part.batch.done for one in self._slices for part in one.now())

    def result(self) -> list[SentRange]:
        """Return where the rows went, by partition. Raises if some were not delivered, or have no
        outcome yet."""
        if not self.done():
            raise InvalidStateError("some rows have no outcome yet: await them")
        parts = [part for one in self._slices for part in one.now()]
        errors = [error for part in parts if (error := part.error()) is not None]
        if errors:
            raise errors[0].with_traceback(None)
        return _joined(sorted(part.where() for part in parts))

    def exception(self) -> Exception | None:
        try:
            self.result()
        except InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        for one in self._slices:
            while waiting := [part.batch for part in one.now() if not part.batch.done]:
                yield from waiting[0].change().__await__()
        return self.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else "no outcome yet"
        return f"<SentRows: {self.rows} rows, {state}>"


def _joined(ranges: list[SentRange]) -> list[SentRange]:
    """Join ranges that follow each other without a gap."""
    joined: list[SentRange] = []
    for one in ranges:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.partition == one.partition
            and (last.last_offset + 1 == one.first_offset or one.first_offset == NO_OFFSET)
        ):
            rows = last.rows + one.rows
            joined[-1] = last._replace(last_offset=one.last_offset, rows=rows)
        else:
            joined.append(one)
    return joined
