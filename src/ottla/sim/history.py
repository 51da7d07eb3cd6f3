"""The answers clients got for a partition, and the logs that are allowed after a crash.

Every record carries a unique name, so that a log can be compared with what was sent. The rules:

- offsets follow each other without a gap, from the log's start;
- every record was sent to this partition and is there once;
- one producer's records lie in the order it sent them;
- a record that was acknowledged or read at an offset is still there, or the log now ends before it;
- the log may end before it only as far as the flush settings allow after the crash that happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Violation(Exception):
    """The broker broke a promise."""


class End(Enum):
    """How one life of the broker ended."""

    CLEAN_STOP = "clean stop"
    KILL = "kill"
    POWER_LOSS = "power loss"


@dataclass
class PartitionHistory:
    name: str
    flush_messages: int | None
    """A power loss may take fewer acknowledged records than this; None: any number."""

    sent: dict[str, int] = field(default_factory=dict)
    """Record name -> its position in the order of sending."""
    told: dict[int, str] = field(default_factory=dict)
    """Offset -> the record that a produce response or a fetch showed there."""
    safe_end: int = 0
    """Records before this offset were written to disk by a clean stop."""

    def sending(self, record: str) -> None:
        if record in self.sent:
            raise AssertionError(f"the workload sends {record} twice")
        self.sent[record] = len(self.sent)

    def acknowledged(self, base_offset: int, records: Sequence[str]) -> None:
        for offset, record in enumerate(records, base_offset):
            self._note_told(offset, record, "acknowledged")

    def read(self, offset: int, record: str) -> None:
        if record not in self.sent:
            raise Violation(f"{self.name} @{offset}: {record!r} was read but never sent here")
        self._note_told(offset, record, "read")

    def _note_told(self, offset: int, record: str, how: str) -> None:
        known = self.told.setdefault(offset, record)
        if known != record:
            raise Violation(f"{self.name} @{offset}: {record} was {how} where {known} was before")

    def check(self, log: Sequence[tuple[int, str]], end: End) -> None:
        """Compare the whole log, read after a restart, with everything clients knew before it."""
        self._check_shape(log)
        self._check_order(log)
        log_end = len(log)
        for offset, record in log:
            if self.told.get(offset, record) != record:
                raise Violation(
                    f"{self.name} @{offset}: {record} where {self.told[offset]} was told, "
                    f"after a {end.value}"
                )
        if log_end < (least := self._least_end(end)):
            raise Violation(
                f"{self.name} ends at {log_end} after a {end.value}, though everything before "
                f"{least} was promised to be kept (flush.messages={self.flush_messages})"
            )
        self.told = dict(log)

    def stopped_cleanly(self) -> None:
        """Note that a clean stop has synced everything: from now on no crash may lose it."""
        self.safe_end = self._told_end()

    def _told_end(self) -> int:
        return max(self.told, default=-1) + 1

    def _least_end(self, end: End) -> int:
        if end is not End.POWER_LOSS:
            return self._told_end()
        if self.flush_messages is None:
            return self.safe_end
        return max(self.safe_end, self._told_end() - (self.flush_messages - 1))

    def _check_shape(self, log: Sequence[tuple[int, str]]) -> None:
        seen: dict[str, int] = {}
        for expected, (offset, record) in enumerate(log):
            if offset != expected:
                raise Violation(f"{self.name}: offset {offset} follows {expected - 1}")
            if record not in self.sent:
                raise Violation(f"{self.name} @{offset}: {record!r} was never sent here")
            if record in seen:
                raise Violation(f"{self.name}: {record} is at {seen[record]} and at {offset}")
            seen[record] = offset

    def _check_order(self, log: Sequence[tuple[int, str]]) -> None:
        last: dict[str, str] = {}
        for offset, record in log:
            producer = record.partition("/")[0]
            before = last.get(producer)
            if before is not None and self.sent[before] > self.sent[record]:
                raise Violation(f"{self.name} @{offset}: {record} lies after {before}, sent later")
            last[producer] = record
