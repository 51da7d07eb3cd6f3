"""What the source asks of a cluster: topics, offsets, and records from an offset on.

It reads by itself and not through `Consumer`: a task reads one known range of one partition, so
that there is nothing to subscribe to or to wait for, and what lies behind the range is not fetched.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ottla.blocking.client import BlockingClient
from ottla.client.admin.offsets import find_offsets, offset_question
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import ask_known_leaders
from ottla.client.network.metadata import Topic
from ottla.client.settings.base import settings_from
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.runtime.os_runtime import OsRuntime
from ottla.spark.first_contact import Patience, reach
from ottla.spark.source.fetching import Answer, Asked, Fetching

T = TypeVar("T")


class SourceClient(BlockingClient):
    """Use `start()` and `close()`. Its calls wait, but for `begin_fetch`.

    `is_first`: nobody has talked to the cluster yet, so that its address may be wrong.
    """

    def __init__(self, options: ConsumerOptions, *, is_first: bool = False) -> None:
        self.settings = settings_from(ConsumerSettings, options)
        self._patience = Patience.of(options, self.settings) if is_first else None
        self._runtime: OsRuntime | None = None
        self._cluster: Cluster | None = None
        self._fetching: Fetching | None = None

    def start(self) -> None:
        self._open(self._connect)

    def close(self) -> None:
        self._shut(self._disconnect)

    async def _connect(self) -> None:
        self._runtime = OsRuntime()
        self._cluster = Cluster.of(self.settings, self._runtime)
        try:
            if self._patience is not None:
                await reach(self._cluster, self._patience)
            else:
                await self._cluster.retrying(self._cluster.any_broker)
        except BaseException:
            await self._disconnect()
            raise
        self._fetching = Fetching(self._cluster, self.settings)

    async def _disconnect(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        if self._runtime is not None:
            await self._runtime.close()

    def metrics(self) -> dict[str, float]:
        """Numbers under Kafka's names."""
        return self._do(self._connected().metrics.snapshot)

    # Topics and offsets

    def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """As they are now, all if there are no `names`; one that is missing has no partitions."""
        cluster = self._connected()
        view = self._call(lambda: cluster.retrying(lambda: cluster.refresh(names)))
        return view.topics

    def offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """At an end of the log, or the first at a time in ms (-1: none is that late)."""
        return self._call(lambda: self._find(at))

    async def _find(
        self, at: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Who leads is known, most of the time: `topics` has asked just before."""
        cluster, isolation = self._connected(), self.settings.isolation_level
        ask = offset_question(cluster, at, isolation)
        answers = await ask_known_leaders(cluster, at, ask)
        again = {one: at[one] for one, found in answers.items() if isinstance(found, KafkaError)}
        if again:
            answers |= await find_offsets(cluster, again, isolation)
        return {
            one: found if isinstance(found, KafkaError) else found.offset
            for one, found in answers.items()
        }

    # Records

    def begin_fetch(self, asked: Asked, within_s: float) -> concurrent.futures.Future[Answer]:
        """The answer comes while the caller does something else."""
        assert self._fetching is not None
        return self._begin(self._fetching.fetch(asked, within_s))

    def _begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        thread = self._running()
        thread.check()
        return asyncio.run_coroutine_threadsafe(work, thread.loop)

    def _connected(self) -> Cluster:
        self._running()
        assert self._cluster is not None
        return self._cluster
