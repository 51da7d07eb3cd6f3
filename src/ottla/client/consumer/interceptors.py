"""Interceptors: they see records before the application does, and offsets after a commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.client.values import AnyRecord, OffsetAndMetadata, TopicPartition

log = logging.getLogger("ottla.client.consumer")

Records = dict[TopicPartition, list[AnyRecord]]


class ConsumerInterceptor:
    """Override what you need. Exceptions are logged, and the records are passed on unchanged."""

    def on_consume(self, records: Records) -> Records:
        """Return the records for the application: the same, others or fewer."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called with offsets after they were committed."""

    def close(self) -> None:
        """Called when the consumer is closed."""


class Interceptors:
    """Calls interceptors in order; each gets the records that the one before returned."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._all = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: Records) -> Records:
        for one in self._all:
            try:
                records = one.on_consume(records)
            except Exception:
                log.exception("%s.on_consume raised an exception", type(one).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for one in self._all:
            try:
                one.on_commit(offsets)
            except Exception:
                log.exception("%s.on_commit raised an exception", type(one).__name__)

    def close(self) -> None:
        for one in self._all:
            try:
                one.close()
            except Exception:
                log.exception("%s.close raised an exception", type(one).__name__)
