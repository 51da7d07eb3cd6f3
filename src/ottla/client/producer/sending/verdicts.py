"""Decides what a response means for a batch."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ottla.client.errors import BadResponse
from ottla.client.network.backoff import may_pass
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


class Verdict(Enum):
    DELIVERED = auto()
    RESEND = auto()
    """It may work later, perhaps at another broker."""
    OUT_OF_ORDER = auto()
    """The broker lacks earlier batches, or has forgotten the producer."""
    SPLIT = auto()
    """Its records may fit in smaller batches."""
    REFUSED = auto()
    """It can never succeed."""


_VERDICTS = {
    ErrorCode.NONE: Verdict.DELIVERED,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.DELIVERED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_ORDER,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.OUT_OF_ORDER,
}

NAMES_NEW_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def verdict_on_code(code: ErrorCode, record_count: int) -> Verdict:
    if code in _VERDICTS:
        return _VERDICTS[code]
    if code is ErrorCode.MESSAGE_TOO_LARGE and record_count > 1:
        return Verdict.SPLIT
    return Verdict.RESEND if code.retriable else Verdict.REFUSED


def verdict_on_failure(error: BaseException) -> Verdict:
    """Judge a failure without a response: the connection is lost, or was never open."""
    if may_pass(error) or isinstance(error, BadResponse):
        return Verdict.RESEND
    return Verdict.REFUSED


def error_of(partition: TopicPartition, answer: Any) -> KafkaError:
    code = ErrorCode.of(answer.error_code)
    return KafkaError(code, f"{partition}: {answer.error_message or code.message}")


def record_errors_of(partition: TopicPartition, answer: Any) -> dict[int, Exception] | None:
    """Return the errors of invalid records; the broker did not check the others of the batch."""
    if not answer.record_errors:
        return None
    single = len(answer.record_errors) == 1
    code = ErrorCode.of(answer.error_code) if single else ErrorCode.INVALID_RECORD
    return {
        found.batch_index: KafkaError(
            code,
            f"{partition}: "
            f"{found.batch_index_error_message or answer.error_message or code.message}",
        )
        for found in answer.record_errors
    }


def error_of_others(partition: TopicPartition, answer: Any) -> KafkaError:
    """Return the error for the records that share a batch with invalid ones."""
    code = ErrorCode.of(answer.error_code)
    if not answer.record_errors:
        return error_of(partition, answer)
    places = ", ".join(str(found.batch_index) for found in answer.record_errors[:3])
    return KafkaError(
        code, f"{partition}: not stored, since the same batch held invalid records (at {places})"
    )
