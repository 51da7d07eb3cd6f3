"""Looking at records before the application gets them, and at offsets after they were committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.client.values import AnyRecord, OffsetAndMetadata, TopicPartition

log = logging.getLogger("ottla.client.consumer")

Records = dict[TopicPartition, list[AnyRecord]]


class ConsumerInterceptor:
    """Override what you need. What it raises is logged, and the records go on as they were."""

    def on_consume(self, records: Records) -> Records:
        """What the application gets instead of `records`: the same, others, or fewer."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The group has taken these."""

    def close(self) -> None:
        """The consumer is being closed."""


class Interceptors:
    """One after the other, each seeing what the one before has made of the records."""

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
