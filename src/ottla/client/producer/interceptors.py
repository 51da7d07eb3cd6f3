"""Interceptors: they see every record before it is serialized, and every outcome.

Exceptions of an interceptor are logged and otherwise ignored: it can watch and change records, but
not prevent sending them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ottla.client.values import RecordMetadata

log = logging.getLogger("ottla.client")


class ProducerRecord(NamedTuple):
    """A record as given to `send`; change it with `_replace`."""

    topic: str
    value: Any
    key: Any
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None


class ProducerInterceptor(Protocol):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called before serialization; the returned record is sent."""
        ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called with the outcome; one of the two is None. Runs on the event loop: be quick."""
        ...

    def close(self) -> None: ...


class Interceptors:
    """The interceptors of a producer, called in order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._all = list(interceptors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass the record through all interceptors; one that raises changes nothing."""
        for interceptor in self._all:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("on_send of interceptor %r failed", interceptor)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        for interceptor in self._all:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("on_acknowledgement of interceptor %r failed", interceptor)

    def close(self) -> None:
        for interceptor in self._all:
            try:
                interceptor.close()
            except Exception:
                log.exception("close of interceptor %r failed", interceptor)
