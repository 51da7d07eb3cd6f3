"""The parts a processor works with: records, `forward`, stores and schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.streams.operators.packing import NOTHING, Codec
from ottla.streams.operators.records import Record, Result
from ottla.streams.operators.stores import Store

STREAM_TIME = "stream time"
WALL_CLOCK = "wall clock"

Headers = Sequence[tuple[str, bytes | None]]
Callback = Callable[[datetime], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Processor(ABC):
    """The class a user writes. Each batch has a new one: data that must last goes to stores."""

    def init(self, context: Context) -> None:  # noqa: B027
        """Called before the first record; the place for `context.schedule`."""

    @abstractmethod
    def process(self, record: ProcessorRecord) -> None: ...

    def close(self) -> None:  # noqa: B027
        """Called after the last record of a batch."""


@dataclass(frozen=True)
class Codecs:
    """Codecs of incoming and outgoing records."""

    key: Codec
    value: Codec
    headers: Codec
    out_key: Codec
    out_value: Codec


class ProcessorRecord:
    """A record as processors see it; rows are dicts."""

    __slots__ = ("_codecs", "_record", "key", "value")

    def __init__(self, record: Record, codecs: Codecs) -> None:
        self._record = record
        self._codecs = codecs
        self.key: Any = _loaded(codecs.key, record.key)
        self.value: Any = _loaded(codecs.value, record.value)

    @property
    def timestamp(self) -> datetime:
        return moment(self._record.time)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        found = _loaded(self._codecs.headers, self._record.headers) or ()
        return [(one["key"], one["value"]) for one in found]

    @property
    def topic(self) -> str | None:
        return self._record.topic or None

    @property
    def partition(self) -> int:
        return self._record.partition

    @property
    def offset(self) -> int:
        return self._record.offset


@dataclass
class Schedule:
    interval_ms: int
    kind: str
    callback: Callback

    def after(self, now: int) -> int:
        """Return the next time: whole intervals since the epoch, as Kafka Streams aligns them."""
        return (now // self.interval_ms + 1) * self.interval_ms


class Context:
    def __init__(self, codecs: Codecs, stores: Mapping[str, Store], time: str | None) -> None:
        self._codecs = codecs
        self._stores = stores
        self._time = time
        self.schedules: list[Schedule] = []
        self.forwarded: list[Result] = []
        self.record: Record | None = None
        self.now_ms = 0

    @property
    def now(self) -> datetime:
        """Stream time, or wall-clock time, at the start of the batch."""
        return moment(self.now_ms)

    def forward(
        self,
        key: Any,
        value: Any,
        *,
        timestamp: datetime | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Forward a record. Timestamp and headers are those of the current record by default."""
        record = self.record
        own = self.now_ms if record is None else record.time
        shown = record.headers if record and headers is None else self._packed(headers)
        self.forwarded.append(
            Result(
                self._codecs.out_key.dumps(key),
                self._codecs.out_value.dumps(value),
                own if timestamp is None else milliseconds(timestamp),
                origin=record,
                headers=shown,
            )
        )

    def store(self, name: str) -> Any:
        if name not in self._stores:
            known = ", ".join(self._stores) or "none"
            raise ValueError(f"there is no store {name!r}: declare it; there are: {known}")
        return self._stores[name]

    def schedule(self, interval: timedelta, kind: str, callback: Callback) -> None:
        """Call `callback(time)` every `interval`, for each bucket of keys that had records."""
        if kind != self._time:
            raise ValueError(
                f"a schedule by {kind} needs a processor with time={kind!r}; this one has"
                f" {self._time!r}: Spark has one clock for a processor"
            )
        if interval < _MS:
            raise ValueError(f"schedule every {interval}: it must be 1 ms at least")
        self.schedules.append(Schedule(interval // _MS, kind, callback))

    def _packed(self, headers: Headers | None) -> str:
        if headers is None:
            return NOTHING
        return self._codecs.headers.dumps([{"key": key, "value": value} for key, value in headers])


def moment(ms: int) -> datetime:
    return _EPOCH + ms * _MS


def milliseconds(when: datetime) -> int:
    return (when.replace(tzinfo=when.tzinfo or UTC) - _EPOCH) // _MS


def _loaded(codec: Codec, text: str) -> Any:
    return None if text == NOTHING else codec.loads(text)
