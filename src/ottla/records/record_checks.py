"""The rules that only the records themselves can answer: their keys, and their age."""

from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_TIMESTAMP
from ottla.records.record import Record
from ottla.records.rules import ProduceRules

RECORD_ERRORS_MAX = 1000
"""So that a batch of many tiny bad records cannot blow up the answer."""


def check_records(records: Sequence[Record], rules: ProduceRules, now_ms: int) -> None:
    """Raise INVALID_TIMESTAMP or INVALID_RECORD, naming the records at fault."""
    keys_missing = _records_without_key(records) if rules.compacted else []
    untimely = [] if rules.log_append_time else _records_out_of_time(records, rules, now_ms)
    if not keys_missing and not untimely:
        return
    # As in Kafka a record has one error, the missing key first; one bad timestamp decides the
    # code of the batch.
    errors = dict([*untimely, *keys_missing])
    untimely_left = errors.keys() - dict(keys_missing).keys()
    listed = sorted(errors.items())[:RECORD_ERRORS_MAX]
    if untimely_left:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"{len(errors)} of {len(records)} records were refused: {listed[0][1]}",
            listed,
        )
    raise InvalidBatch(
        ErrorCode.INVALID_RECORD,
        f"{len(errors)} of {len(records)} records were refused: {listed[0][1]}",
        listed,
    )


def _records_without_key(records: Sequence[Record]) -> list[tuple[int, str]]:
    return [
        (index, "the topic is compacted: every record needs a key")
        for index, record in enumerate(records)
        if record.key is None
    ]


def _records_out_of_time(
    records: Sequence[Record], rules: ProduceRules, now_ms: int
) -> list[tuple[int, str]]:
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = now_ms + rules.timestamp_after_max_ms
    return [
        (index, f"timestamp {record.timestamp} is not within {earliest} to {latest}")
        for index, record in enumerate(records)
        if not earliest <= record.timestamp <= latest and record.timestamp != NO_TIMESTAMP
    ]
