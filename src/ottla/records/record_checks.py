"""The rules that only the records themselves can answer: their keys, and their age."""

from collections.abc import Iterable

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.engine import survey_records
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_TIMESTAMP, BatchHeader
from ottla.records.reader import read_payload
from ottla.records.record import Record
from ottla.records.rules import ProduceRules
from ottla.records.survey import Survey

RECORD_ERRORS_MAX = 1000
"""So that a batch of many tiny bad records cannot blow up the answer."""


def check_records(header: BatchHeader, payload: Buffer, rules: ProduceRules, now_ms: int) -> Survey:
    """What there is to know of the records; raises INVALID_TIMESTAMP or INVALID_RECORD, naming
    those at fault, where there are any.
    """
    found = survey_records(payload, header.record_count, header.base_timestamp)
    if not obeys(found, rules, now_ms):
        faults = _Faults(rules, now_ms)
        faults.look_at(read_payload(header, bytes(payload)))
        faults.raise_if_any()
    return found


def obeys(found: Survey, rules: ProduceRules, now_ms: int) -> bool:
    """Whether no single record breaks a rule."""
    if rules.compacted and not found.has_keys:
        return False
    return rules.log_append_time or (
        now_ms - rules.timestamp_before_max_ms <= found.earliest
        and found.latest <= now_ms + rules.timestamp_after_max_ms
    )


class _Faults:
    """Collects what is wrong. As in Kafka a record has one fault, the missing key first, and one
    bad timestamp decides the code of the whole batch.
    """

    def __init__(self, rules: ProduceRules, now_ms: int) -> None:
        self._earliest = now_ms - rules.timestamp_before_max_ms
        self._latest = now_ms + rules.timestamp_after_max_ms
        self._needs_keys = rules.compacted
        self._needs_times = not rules.log_append_time
        self._code = ErrorCode.INVALID_RECORD
        self._count = 0
        self._listed: list[tuple[int, str]] = []

    def look_at(self, records: Iterable[Record]) -> None:
        for index, record in enumerate(records):
            timestamp = record.timestamp
            if record.key is None and self._needs_keys:
                self._add(index, "the topic is compacted: every record needs a key")
            elif (
                self._needs_times
                and timestamp != NO_TIMESTAMP
                and not self._earliest <= timestamp <= self._latest
            ):
                self._code = ErrorCode.INVALID_TIMESTAMP
                limits = f"{self._earliest} to {self._latest}"
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
