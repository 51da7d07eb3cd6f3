"""Settings for processing records in parallel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict

from ottla.client.errors import BadSetting
from ottla.client.values import AnyRecord

Ordering = Literal["key", "partition", "unordered"]
Handler = Callable[[AnyRecord], Awaitable[Any] | Any]
"""A coroutine function runs on the event loop, a plain one in a thread."""
OnFailure = Callable[[AnyRecord, Exception], Awaitable[Any] | Any]


class Signal(Protocol):
    """An `asyncio.Event` or a `threading.Event`."""

    def is_set(self) -> bool: ...


BUFFERED_PER_WORKER = 32
DRAIN_TIMEOUT_MS = 30_000


_KINDS = {
    "until": "an asyncio.Event or threading.Event",
    "on_failure": "a function of a record and an exception",
}


class ParallelOptions(TypedDict, total=False):
    concurrency: int
    ordering: Ordering
    max_buffered: int | None
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    on_failure: OnFailure | None
    until: Signal | None
    drain_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSettings:
    concurrency: int = 16
    """How many records are processed at the same time."""
    ordering: Ordering = "key"
    """key: records of one key in order, records without a key in any order; partition: all records
    of a partition in order; unordered: any order."""
    max_buffered: int | None = None
    """The most records taken from the consumer and not finished; None: 32 for each worker."""
    retries: int = 0
    """How often a record is retried after its handler raised."""
    retry_backoff_ms: int = 100
    """The pause before a retry; doubled each time, up to `retry_backoff_max_ms`."""
    retry_backoff_max_ms: int = 10_000
    on_failure: OnFailure | None = None
    """Called with the record and the last error when its retries are used up; the record then
    counts as finished. None: processing stops, and the error is raised."""
    until: Signal | None = None
    """Processing ends when it is set."""
    drain_timeout_ms: int = DRAIN_TIMEOUT_MS
    """How long to wait for records that are being processed when a partition is given up, or
    processing ends."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_buffered"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadSetting(name, f"{value} is below the least allowed, 1")
        for name, what in (("until", "is_set"), ("on_failure", "__call__")):
            value = getattr(self, name)
            if value is not None and not hasattr(value, what):
                raise TypeError(f"{name}: {value!r} is not {_KINDS[name]}")
        if self.ordering not in ("key", "partition", "unordered"):
            raise BadSetting("ordering", f"{self.ordering!r} is none of: key, partition, unordered")

    @property
    def buffered_max(self) -> int:
        return self.max_buffered or self.concurrency * BUFFERED_PER_WORKER

    def pause_ms(self, attempt: int) -> float:
        return min(self.retry_backoff_max_ms, self.retry_backoff_ms * 2.0**attempt)
