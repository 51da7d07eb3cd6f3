"""Errors as one line: what was wrong, and what to do about it."""

from __future__ import annotations

from ottla.client.errors import (
    BadResponse,
    ClientError,
    DeliveryFailed,
    NoBrokerReachable,
    TopicMissing,
    Unreachable,
    UnsupportedVersion,
)
from ottla.protocol.errors import ErrorCode, KafkaError

_ADVICE = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists makes this no error",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`ottla cluster` lists the brokers there are",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: (
        "--bootstrap wants the address of a broker; that of a controller's listener goes with "
        "--bootstrap-controller, which `ottla quorum` takes"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes of the topic is the limit",
}


def explain(error: BaseException) -> str | None:
    """The line for an error of the world; None for one of ours, whose traceback is wanted."""
    if isinstance(error, NoBrokerReachable):
        return (
            f"{error}. Is the broker running? Start one with `ottla start`, "
            "or name another with --bootstrap HOST:PORT"
        )
    if isinstance(error, Unreachable):
        return f"{error}. The cluster advertises this address; can it be reached from here?"
    if isinstance(error, BadResponse):
        return f"{error}. Is the port right?"
    if isinstance(error, UnsupportedVersion) and error.request == "Metadata":
        return f"{error}. Is it a controller's listener? --bootstrap wants the address of a broker"
    if isinstance(error, DeliveryFailed):
        return f"{error}{_advice(error.cause)}"
    if isinstance(error, TopicMissing) and error.partition is None:
        return f"{error}. Create it with `ottla topics create {error.topic}`"
    if isinstance(error, KafkaError):
        return f"{error}{_advice(error)}"
    if isinstance(error, ClientError):
        return str(error)
    if _is_said_in_full(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return None


def exit_code(error: BaseException) -> int:
    """2 where the call was wrong, as for a wrong option; 1 where what it asked for has failed."""
    from ottla.pipelines.errors import InvalidFile

    return 2 if isinstance(error, InvalidFile) else 1


def _is_said_in_full(error: BaseException) -> bool:
    """Errors of pipelines say themselves what to do."""
    from ottla.pipelines.errors import PipelineError
    from ottla.spark.java import JavaMissing
    from ottla.spark.session import SparkMissing

    return isinstance(error, PipelineError | JavaMissing | SparkMissing)


def _advice(error: BaseException) -> str:
    advice = _ADVICE.get(error.code) if isinstance(error, KafkaError) else None
    return f" ({advice})" if advice else ""
