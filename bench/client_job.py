"""What every client is asked to do in the comparison, and how it is timed.

All get the same: `acks=all` and idempotence, 5 ms of linger, batches of up to 128 KiB, 32 MiB to
buffer where that can be told; fetches of up to 1 MiB a partition and 50 MiB in all.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

LINGER_MS = 5
BATCH_BYTES = 128 << 10
BUFFER_BYTES = 32 << 20
REQUEST_BYTES = 1 << 20
PARTITION_FETCH_BYTES = 1 << 20
FETCH_BYTES = 50 << 20
PARTITIONS = 4
CHUNK = 1_000
"""Records between two looks at the clock: a look at each would be part of the figure."""
SILENCE_S = 20.0
"""So long without a record is an error."""
_VALUES = 997


@dataclass(frozen=True, slots=True)
class Job:
    address: str
    topic: str
    size: int
    codec: str
    """none or lz4; only producers look at it."""
    seconds: float
    limit: int
    """At most so many records: to consume no more than there is."""
    method: str


@dataclass(frozen=True, slots=True)
class Measured:
    records: int
    seconds: float
    cpu_s: float
    """Of all threads of the process, between the first record and the last."""
    peak_rss_bytes: int
    """Of the process from its start, the interpreter and all its modules included."""

    @property
    def per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time a record, which is seconds a million records."""
        return self.cpu_s / self.records * 1e6


class Watch:
    """Runs from `start`, which for consumers is the first delivery: groups of requests that find
    the way to the data are not what is compared."""

    def __init__(self, job: Job) -> None:
        self._seconds = job.seconds
        self._limit = job.limit
        self._started = 0.0
        self._cpu = 0.0

    def start(self) -> None:
        self._cpu = _cpu_s()
        self._started = time.monotonic()

    @property
    def running(self) -> bool:
        return self._started > 0

    def goes_on(self, records: int) -> bool:
        return records < self._limit and time.monotonic() - self._started < self._seconds

    def stop(self, records: int) -> Measured:
        seconds, cpu = time.monotonic() - self._started, _cpu_s() - self._cpu
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Measured(records, seconds, cpu, peak_kib * 1024)


Method = Callable[[Job, Watch], Measured]


def values(size: int) -> list[bytes]:
    """Records as services write them: JSON of different content, compressible about threefold."""
    dice = random.Random(size)
    return [_value(dice, size) for _ in range(_VALUES)]


def _value(dice: random.Random, size: int) -> bytes:
    text = ""
    while len(text) < size:
        text += (
            f'{{"user":"u{dice.randrange(10**6):06}","amount":{dice.randrange(10**5) / 100},'
            f'"currency":"EUR","at":{1_700_000_000_000 + dice.randrange(10**9)},"state":"open"}}'
        )
    return text[:size].encode()


def chunk_of_values(size: int) -> list[bytes]:
    """`CHUNK` values, to walk over without an index."""
    some = values(size)
    return [some[number % len(some)] for number in range(CHUNK)]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
