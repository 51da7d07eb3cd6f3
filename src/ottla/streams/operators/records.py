"""Records and results as the engine passes them: text, with control characters in between.

JSON escapes control characters, so one can separate the fields. All times are in milliseconds, as
in topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PART = "\x01"
NOWHERE = -1


class Record(NamedTuple):
    """`key` and `value` are packed; `due` is when the record's window closes, if it has one."""

    side: int
    time: int
    partition: int
    offset: int
    due: int
    topic: str
    headers: str
    key: str
    value: str

    @classmethod
    def read(cls, text: str) -> Record:
        side, time, partition, offset, due, topic, headers, key, value = text.split(PART)
        numbers = int(side), int(time), int(partition), int(offset), int(due)
        return cls(*numbers, topic, headers, key, value)

    @property
    def place(self) -> str:
        return f"{self.topic or 'topic unknown'}, partition {self.partition}, offset {self.offset}"


class Result(NamedTuple):
    """A row to emit. `other` is the right value of a pair, or the value of a failed record.

    `origin` is the record whose origin and headers the row gets.
    """

    key: str
    value: str
    time: int
    other: str = ""
    start: int | None = None
    end: int | None = None
    gone: bool = False
    origin: Record | None = None
    headers: str = ""
    error_kind: str = ""
    error: str = ""

    def text(self) -> str:
        origin = self.origin
        topic, partition, offset = (
            (origin.topic, origin.partition, origin.offset) if origin else ("", NOWHERE, NOWHERE)
        )
        start = "" if self.start is None else self.start
        end = "" if self.end is None else self.end
        return (
            f"{self.key}\x01{self.value}\x01{self.other}\x01{self.time}\x01{topic}\x01{partition}"
            f"\x01{offset}\x01{start}\x01{end}\x01{'1' if self.gone else ''}\x01{self.headers}"
            f"\x01{self.error_kind}\x01{self.error}"
        )


RESULT_FIELDS = (
    *("key", "value", "other", "time", "topic", "partition", "offset"),
    *("start", "end", "gone", "headers", "error_kind", "error"),
)


def in_order(records: Iterable[Record], first_side: int = 0) -> list[Record]:
    """Order records as Kafka Streams does: next comes the partition with the oldest next record.

    Within a partition offsets decide. So the order is by the newest time so far in each partition.
    On ties `first_side` goes first.
    """
    queued = sorted(records, key=lambda record: (record.side, record.partition, record.offset))
    if not queued or _same_queue(queued[0], queued[-1]):
        return queued
    keyed, newest, previous = [], 0, None
    for number, record in enumerate(queued):
        if previous is None or not _same_queue(previous, record):
            newest = record.time
        newest, previous = max(newest, record.time), record
        keyed.append((newest, record.side != first_side, number))
    return [queued[number] for _, _, number in sorted(keyed)]


def _same_queue(one: Record, other: Record) -> bool:
    return (one.side, one.partition) == (other.side, other.partition)
