"""Finds a record by its timestamp without blocking the loop.

Batches are located on the loop, a short stretch of the log at a time; batches that take longer to
search are opened in a thread.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.storage.segments.timed_batch import TimedBatch
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.records.errors import OpensTooLarge

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.batch_opener import BatchOpener
    from ottla.runtime.clock import Clock

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""

TURN_S: Final = 0.005
LOOKUP_S_MAX: Final = 30.0
"""Batches whose headers claim timestamps that their records do not have could otherwise keep a
lookup busy for hours."""


class TimeLookup:
    def __init__(self, opener: BatchOpener, clock: Clock, partition: Partition) -> None:
        self._opener = opener
        self._clock = clock
        self._partition = partition

    async def first_from(self, timestamp: int) -> Found | None:
        """Return the first record whose timestamp is at least `timestamp`."""
        offset = self._partition.usable_log().log_start_offset
        started = turn_began = self._clock.now()
        while True:
            # Look the log up each time: it may be truncated, compacted or moved meanwhile.
            log = self._partition.usable_log()
            timed = log.batch_for_timestamp(timestamp, offset)
            if timed is None:
                return None
            if isinstance(timed, int):
                offset = timed
            else:
                first_offset = max(offset, log.log_start_offset)
                if (found := await self._look_into(timed, timestamp, first_offset)) is not None:
                    return found
                offset = timed.header.next_offset
            now = self._clock.now()
            if now - started > LOOKUP_S_MAX:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            if now - turn_began > TURN_S:
                await asyncio.sleep(0)
                turn_began = self._clock.now()

    async def youngest(self) -> Found | None:
        """Return the record with the highest timestamp; of several, the first in its batch."""
        timed = self._partition.usable_log().batch_of_max_timestamp()
        if timed is None:
            return None
        return await self._look_into(timed, timed.header.max_timestamp, 0)

    async def _look_into(
        self, timed: TimedBatch, timestamp: int, first_offset: int
    ) -> Found | None:
        if timed.is_quick:
            return timed.find(timestamp, first_offset)
        look = partial(_found_or_error, timed, timestamp, first_offset)
        size = len(timed.batch)
        found = await self._opener.small.run(size, look)
        if isinstance(found, OpensTooLarge):
            found = await self._opener.large.run(size, look)
        if isinstance(found, OpensTooLarge):
            # With an error, clients would retry until they time out, and one such batch would make
            # every lookup of its time fail. A client that begins at this batch misses no record.
            return timed.beginning(first_offset)
        if isinstance(found, KafkaError):
            raise found
        return found


def _found_or_error(
    timed: TimedBatch, timestamp: int, first_offset: int, bytes_max: int
) -> Found | KafkaError | None:
    try:
        return timed.find(timestamp, first_offset, bytes_max)
    except KafkaError as error:
        return without_traceback(error)
