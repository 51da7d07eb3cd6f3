"""The job of every client in the comparison, and how it is timed.

All have the same settings: `acks=all` and idempotence, 5 ms of linger, batches of up to 128 KiB, a
buffer of 32 MiB if that can be set; fetches of up to 1 MiB per partition and 50 MiB in all.
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
"""Records between two looks at the clock: a look after each record would affect the figure."""
SILENCE_S = 20.0
"""This long without a record is an error."""
_VALUES = 997


@dataclass(frozen=True, slots=True)
class Job:
    address: str
    topic: str
    size: int
    codec: str
    """none or lz4; only used by producers."""
    seconds: float
    limit: int
    """The maximum number of records, so as not to consume more than there are."""
    method: str


@dataclass(frozen=True, slots=True)
class Measured:
    records: int
    seconds: float
    cpu_s: float
    """CPU time of all threads of the process, between the first record and the last."""
    peak_rss_bytes: int
    """Peak memory of the process since its start, including the interpreter and all modules."""

    @property
    def per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU time per record, which is seconds per million records."""
        return self.cpu_s / self.records * 1e6


class Watch:
    """Runs from `start`, which for consumers is the first delivery: the requests that locate the
    data are not compared."""

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
    """Return records as services write them: JSON of varied content that compresses threefold."""
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
    """Return `CHUNK` values, to iterate without an index."""
    some = values(size)
    return [some[number % len(some)] for number in range(CHUNK)]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
