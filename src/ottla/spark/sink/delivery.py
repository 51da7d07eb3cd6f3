"""Sends rows to topics: a producer, the topics it has seen, and readable errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.client.errors import ClientError, TransactionFailed
from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.client.settings.base import settings_from
from ottla.client.settings.producer import ProducerSettings
from ottla.protocol.errors import KafkaError
from ottla.spark.sink.errors import SinkError
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import Rows, ensure_topic

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.spark")

T = TypeVar("T")

GIVE_UP_S: Final = 15
"""How long a failed task tries to undo its work; after that brokers do, by timeout."""


class Delivery:
    """The producer of one task. All calls are made in the cluster's loop."""

    def __init__(self, cluster: Cluster, options: SinkOptions, rows: Rows) -> None:
        self._cluster = cluster
        self._options = options
        self._rows = rows
        settings = settings_from(ProducerSettings, options.producer_options)
        self._may_create = settings.allow_auto_create_topics
        self._topics: set[str] = set()
        self._producer: Producer | None = None
        self._is_done = False

    async def begin(self) -> None:
        self._producer = await self._make_producer()

    async def send(self, batch: pa.RecordBatch) -> None:
        for topic, own in self._rows.by_topic(batch):
            if topic not in self._topics:
                await ensure_topic(self._cluster, topic, create=self._may_create)
                self._topics.add(topic)
            await self.explained(self._rows.send(self.running(), topic, own))

    async def flush(self) -> None:
        await self.explained(self.running().flush())
        self._is_done = True

    async def close(self) -> None:
        """Close the producer and abort unfinished work, as far as possible."""
        if self._producer is None:
            return
        try:
            async with asyncio.timeout(GIVE_UP_S):
                if not self._is_done:
                    await self._undo(self._producer)
                await self._producer.close()
        except (ClientError, KafkaError, TimeoutError) as error:
            if self._is_done:
                raise
            log.warning("a task that failed could not undo what it did: %s", error)

    async def _undo(self, producer: Producer) -> None:
        """Do nothing: records sent without a transaction cannot be taken back."""

    async def _make_producer(self) -> Producer:
        producer = Producer.over(self._cluster, **self._options.producer_options)
        await producer.start()
        return producer

    def running(self) -> Producer:
        assert self._producer is not None, "begin() comes first"
        return self._producer

    async def explained(self, work: Awaitable[T]) -> T:
        """Turn errors into `SinkError`: brokers' refusals may be raised by any later call."""
        try:
            return await work
        except TransactionFailed as error:
            raise SinkError(f"rows could not be written: {error.cause}") from None
        except (ClientError, KafkaError) as error:
            raise SinkError(f"rows could not be written: {error}") from error
