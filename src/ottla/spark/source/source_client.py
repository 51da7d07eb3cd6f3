"""The source's client of a cluster: topics, offsets, and records from an offset on.

It does not use `Consumer`: a task reads one known range of one partition, so there is nothing to
subscribe to or to wait for, and records after the range are not fetched.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ottla.blocking.loop_user import LoopUser
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


class SourceClient:
    """Use `start()` and `close()`. Its calls block, except `begin_fetch`.

    `is_first`: nobody has connected to the cluster yet, so its address may be wrong.
    """

    def __init__(self, options: ConsumerOptions, *, is_first: bool = False) -> None:
        self.settings = settings_from(ConsumerSettings, options)
        self._patience = Patience.of(options, self.settings) if is_first else None
        self._loop = LoopUser("SourceClient")
        self._runtime: OsRuntime | None = None
        self._cluster: Cluster | None = None
        self._fetching: Fetching | None = None

    def start(self) -> None:
        self._loop.open(self._connect)

    def close(self) -> None:
        self._loop.close(self._disconnect)

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
        """Metrics under Kafka's names."""
        return self._loop.do(self._connected().metrics.snapshot)

    # Topics and offsets

    def topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """Return the present topics, all without `names`; a missing one has no partitions."""
        cluster = self._connected()
        view = self._loop.call(lambda: cluster.retrying(lambda: cluster.refresh(names)))
        return view.topics

    def offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """Return offsets at an end of the log, or the first at a time in ms (-1: none)."""
        return self._loop.call(lambda: self._find(at))

    async def _find(
        self, at: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Ask the known leaders first: they are mostly current, as `topics` has just asked."""
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
        """Begin a fetch; the answer arrives while the caller does something else."""
        assert self._fetching is not None
        return self._begin(self._fetching.fetch(asked, within_s))

    def _begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        thread = self._loop.running()
        thread.check()
        return asyncio.run_coroutine_threadsafe(work, thread.loop)

    def _connected(self) -> Cluster:
        self._loop.running()
        assert self._cluster is not None
        return self._cluster
