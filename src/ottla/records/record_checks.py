"""The rules that only the records themselves can answer: their keys, and their age."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_TIMESTAMP
from ottla.records.record import Record
from ottla.records.rules import ProduceRules

RECORD_ERRORS_MAX = 1000
"""So that a batch of many tiny bad records cannot blow up the answer."""


class Checked(NamedTuple):
    """What is known of the records of a batch after a walk over them."""

    max_timestamp: int
    consecutive: bool
    """Whether their offsets count up from the base offset without a gap."""


def check_records(
    records: Iterable[Record], base_offset: int, rules: ProduceRules, now_ms: int
) -> Checked:
    """Walk over all records; raise INVALID_TIMESTAMP or INVALID_RECORD, naming those at fault."""
    faults = _Faults(rules, now_ms)
    max_timestamp, consecutive = NO_TIMESTAMP, True
    for index, record in enumerate(records):
        offset, timestamp, key = record[:3]
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if offset != base_offset + index:
            consecutive = False
        if key is None or not faults.earliest <= timestamp <= faults.latest:
            faults.look_at(index, record)
    faults.raise_if_any()
    return Checked(max_timestamp, consecutive)


class _Faults:
    """Collects what is wrong. As in Kafka a record has one fault, the missing key first, and one
    bad timestamp decides the code of the whole batch.
    """

    def __init__(self, rules: ProduceRules, now_ms: int) -> None:
        self.earliest = now_ms - rules.timestamp_before_max_ms
        self.latest = now_ms + rules.timestamp_after_max_ms
        self._needs_keys = rules.compacted
        self._needs_times = not rules.log_append_time
        self._code = ErrorCode.INVALID_RECORD
        self._count = 0
        self._listed: list[tuple[int, str]] = []

    def look_at(self, index: int, record: Record) -> None:
        timestamp = record.timestamp
        if record.key is None and self._needs_keys:
            self._add(index, "the topic is compacted: every record needs a key")
        elif (
            self._needs_times
            and timestamp != NO_TIMESTAMP
            and not self.earliest <= timestamp <= self.latest
        ):
            self._code = ErrorCode.INVALID_TIMESTAMP
            limits = f"{self.earliest} to {self.latest}"
            self._add(index, f"timestamp {timestamp} is not within {limits}")

    def raise_if_any(self) -> None:
        if self._count:
            reason = self._listed[0][1]
            raise InvalidBatch(
                self._code, f"{self._count} records were refused: {reason}", self._listed
            )

    def _add(self, index: int, reason: str) -> None:
        self._count += 1
        if len(self._listed) < RECORD_ERRORS_MAX:
            self._listed.append((index, reason))
