"""Errors as one line: the problem, and what to do about it."""

from __future__ import annotations

from ottla.cli.given_file import CannotRead
from ottla.client.errors import (
    BadResponse,
    BadSetting,
    ClientError,
    DeliveryFailed,
    NoBrokerReachable,
    TlsFailed,
    TopicMissing,
    Unreachable,
    UnsupportedVersion,
    continued,
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


_SETTINGS = {
    "security_protocol": "-X security.protocol",
    "ssl_cafile": "-X ssl.ca.location",
    "ssl_certfile": "-X ssl.certificate.location",
}
"""Settings that hints of the client name, and the options by which a command sets them."""


def explain(error: BaseException) -> str | None:
    """Return the line for an expected error; None for a bug, whose traceback is wanted."""
    line = _explained(error)
    for name, option in _SETTINGS.items():
        line = None if line is None else line.replace(name, option)
    return line


def _explained(error: BaseException) -> str | None:
    told = str(error)
    if isinstance(error, NoBrokerReachable):
        way_on = "Start one with `ottla start`, or name another with --bootstrap HOST:PORT"
        return continued(told, f"Is the broker running? {way_on}")
    if isinstance(error, Unreachable):
        where = "The cluster advertises this address; can it be reached from here?"
        return continued(told, where)
    if isinstance(error, BadResponse):
        return continued(told, "Is the port right?")
    if isinstance(error, UnsupportedVersion) and error.request == "Metadata":
        wanted = "--bootstrap wants the address of a broker"
        return continued(told, f"Is it a controller's listener? {wanted}")
    if isinstance(error, DeliveryFailed):
        return f"{told}{_advice(error.cause)}"
    if isinstance(error, TopicMissing) and error.partition is None:
        return continued(told, f"Create it with `ottla topics create {error.topic}`")
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
    """Return 2 if the call was wrong, as for a wrong option; 1 if the operation failed."""
    from ottla.pipelines.errors import InvalidFile

    if isinstance(error, TlsFailed):
        return 2 if error.address is None else 1  # without an address, a file cannot be used
    return 2 if isinstance(error, CannotRead | InvalidFile | BadSetting) else 1


def _is_said_in_full(error: BaseException) -> bool:
    """True for errors of files and pipelines, which say themselves what to do."""
    from ottla.pipelines.errors import PipelineError
    from ottla.spark.java import JavaMissing
    from ottla.spark.session import SparkMissing

    return isinstance(error, CannotRead | PipelineError | JavaMissing | SparkMissing)


def _advice(error: BaseException) -> str:
    advice = _ADVICE.get(error.code) if isinstance(error, KafkaError) else None
    return f" ({advice})" if advice else ""
