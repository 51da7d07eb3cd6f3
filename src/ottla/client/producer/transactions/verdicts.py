"""Decides what an error code of a transaction request means for the producer.

The rules are those of Kafka's own producer, so that both survive the same errors. Brokers before
2.8 send `INVALID_PRODUCER_EPOCH` for `PRODUCER_FENCED`. In response to a batch it means that the
coordinator has aborted the transaction, so it is enough to abort it here.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ottla.client.errors import ProducerFenced, TransactionFatal
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.errors import KafkaError


class Verdict(Enum):
    AGAIN = auto()
    """It is temporary: ask the same broker again."""
    ELSEWHERE = auto()
    """Another broker is the coordinator now: find it, and ask there."""
    ABORT = auto()
    """The transaction can only be aborted."""
    RENEW = auto()
    """The transaction can only be aborted, and the coordinator has forgotten the producer, which
    needs a new identity."""
    FATAL = auto()
    """The producer cannot go on."""


_ELSEWHERE: Final = frozenset({E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE})
_RENEW: Final = frozenset({E.UNKNOWN_PRODUCER_ID, E.INVALID_PRODUCER_ID_MAPPING})
_ABORT: Final = frozenset(
    {
        E.TRANSACTION_ABORTABLE,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.OPERATION_NOT_ATTEMPTED,
        E.INVALID_TOPIC_EXCEPTION,
        # In TxnOffsetCommit: the consumer that committed the offsets has lost its partitions, ...
        E.UNKNOWN_MEMBER_ID,
        E.ILLEGAL_GENERATION,
        E.STALE_MEMBER_EPOCH,
        E.FENCED_INSTANCE_ID,
        # ... or the offsets themselves are invalid.
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_COMMIT_OFFSET_SIZE,
        E.INVALID_GROUP_ID,
    }
)
_FATAL_FOR_BATCHES: Final = frozenset(
    {
        E.PRODUCER_FENCED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.UNSUPPORTED_VERSION,
    }
)

_FENCED: Final = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH})


def verdict_on_request(code: E) -> Verdict:
    """Judge the response to a request about the transaction itself, or its offsets."""
    if code in _ELSEWHERE:
        return Verdict.ELSEWHERE
    if code.retriable:
        return Verdict.AGAIN
    if code in _ABORT:
        return Verdict.ABORT
    return Verdict.RENEW if code in _RENEW else Verdict.FATAL


def verdict_on_error(error: Exception) -> Verdict:
    """Judge a request that was refused, or could not be sent."""
    return verdict_on_request(error.code) if isinstance(error, KafkaError) else Verdict.FATAL


def verdict_on_batch(code: E) -> Verdict:
    """Judge a batch that the sender has given up."""
    if code in _FATAL_FOR_BATCHES:
        return Verdict.FATAL
    return Verdict.RENEW if code is E.INVALID_PRODUCER_ID_MAPPING else Verdict.ABORT


def fatal_error(
    transactional_id: str, error: Exception, open_ms: int, age_max_ms: int | None
) -> TransactionFatal:
    """Return the error for a producer that cannot go on, with the most likely cause: its own
    slowness if its transaction has been open longer than its timeout."""
    code = error.code if isinstance(error, KafkaError) else None
    problem = str(error)
    is_lost = code in _FENCED or code is E.INVALID_TXN_STATE
    if is_lost and age_max_ms is not None and open_ms >= age_max_ms:
        problem = (
            f"its transaction was open for {open_ms} ms, and the coordinator aborts it after "
            f"transaction_timeout_ms ({age_max_ms}): {error}"
        )
    elif code in _FENCED:
        problem = f"another producer with this transactional id has taken over: {error}"
    kind = ProducerFenced if code in _FENCED else TransactionFatal
    return kind(transactional_id, problem, error)
