"""Checks that need the records themselves: their keys, and their timestamps."""

from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.records.engine import find_faults, survey_records
from ottla.records.errors import InvalidBatch
from ottla.records.header import BatchHeader
from ottla.records.payload import INT64_MAX, INT64_MIN
from ottla.records.rules import ProduceRules
from ottla.records.survey import Survey

RECORD_ERRORS_MAX = 1000
"""A limit, so that a batch of many tiny bad records cannot blow up the response."""


def check_records(header: BatchHeader, payload: Buffer, rules: ProduceRules, now_ms: int) -> Survey:
    """Return the survey of the records; raises INVALID_TIMESTAMP or INVALID_RECORD, naming the
    invalid ones, if there are any."""
    found = survey_records(payload, header.record_count, header.base_timestamp)
    if not obeys(found, rules, now_ms):
        _refuse(header, payload, rules, now_ms)
    return found


def obeys(found: Survey, rules: ProduceRules, now_ms: int) -> bool:
    """True if no record breaks a rule."""
    if rules.compacted and not found.has_keys:
        return False
    return rules.log_append_time or (
        now_ms - rules.timestamp_before_max_ms <= found.earliest
        and found.latest <= now_ms + rules.timestamp_after_max_ms
    )


def _refuse(header: BatchHeader, payload: Buffer, rules: ProduceRules, now_ms: int) -> None:
    """Raise for the invalid records. As in Kafka a record has one fault, the missing key first, and
    one bad timestamp decides the code of the whole batch."""
    earliest, latest = INT64_MIN, INT64_MAX
    if not rules.log_append_time:
        earliest = max(now_ms - rules.timestamp_before_max_ms, INT64_MIN)
        latest = min(now_ms + rules.timestamp_after_max_ms, INT64_MAX)
    faults, listed, any_out_of_time = find_faults(
        payload,
        header.record_count,
        header.base_timestamp,
        rules.compacted,
        earliest,
        latest,
        RECORD_ERRORS_MAX,
    )
    if not faults:
        return
    reasons = [
        (
            index,
            "the topic is compacted: every record needs a key"
            if timestamp is None
            else f"timestamp {timestamp} is not within {earliest} to {latest}",
        )
        for index, timestamp in listed
    ]
    code = ErrorCode.INVALID_TIMESTAMP if any_out_of_time else ErrorCode.INVALID_RECORD
    raise InvalidBatch(code, f"{faults} records were refused: {reasons[0][1]}", reasons)
