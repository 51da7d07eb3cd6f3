"""Connects the parts of a running producer: intake -> accumulator -> sender -> delivery."""

from __future__ import annotations

import asyncio

from ottla.client.network.cluster import Cluster
from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.intake import Intake
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.routing.routes import Routes
from ottla.client.producer.sending.idempotence import IdempotentIdentity
from ottla.client.producer.sending.identity import IdentityKeeper, Nobody
from ottla.client.producer.sending.sender import Sender
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.settings.producer import ProducerSettings


class Engine:
    def __init__(
        self, cluster: Cluster, settings: ProducerSettings, interceptors: Interceptors
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.metrics = ProducerMetrics(cluster.metrics, cluster.runtime.clock)
        self.routes = Routes(cluster, settings)
        self.sender = Sender(cluster, settings, self.routes.all, self.metrics)
        self.routes.listen(self.sender)
        self.transactions: TransactionManager | None = None
        self.keeper = self.sender.delivery.keeper = self._make_keeper()
        self.accumulator = self.sender.accumulator
        self.failures = self.sender.failures
        self.metrics.watch_memory(self.accumulator.memory)
        self.intake = Intake(
            settings,
            cluster.runtime.clock,
            self.routes,
            self.accumulator,
            self.keeper,
            interceptors,
        )

    def _make_keeper(self) -> IdentityKeeper:
        if self.settings.transactional_id is not None:
            self.transactions = TransactionManager(self.cluster, self.settings, self.sender.outbox)
            return self.transactions.keeper
        if self.settings.is_idempotent:
            return IdempotentIdentity(
                self.cluster,
                self.settings,
                wake=self.sender.wake,
                give_up=self.sender.give_up_all,
            )
        return Nobody()

    async def flush(self) -> None:
        """Wait until each record given so far has its outcome, and waiting callers have seen it."""
        clock = self.cluster.runtime.clock
        began = clock.now()
        await self.sender.outbox.flush()
        await asyncio.sleep(0)
        self.metrics.flush_ns.add(int((clock.now() - began) * 1e9))

    async def send_batch(self, batch: ProducerBatch) -> None:
        """Send a whole batch: wait for room, then yield to the event loop."""
        self.intake.check_open()
        topic, partition = batch.partition
        deadline = self.cluster.runtime.clock.now() + self.settings.max_block_ms / 1000
        route = await self.routes.find(topic, partition, deadline)
        memory = self.accumulator.memory
        if batch.memory > memory.free or memory.waiting:
            await memory.reserve(batch.memory, self.settings.max_block_ms)
        else:
            memory.free -= batch.memory
        self.accumulator.add(route.queues[partition], batch)
        await asyncio.sleep(0)

    async def partitions_for(self, topic: str) -> frozenset[int]:
        deadline = self.cluster.runtime.clock.now() + self.settings.max_block_ms / 1000
        route = await self.routes.find(topic, None, deadline)
        return frozenset(range(route.count))

    def give_up(self) -> None:
        """Fail all records without an outcome, so that tasks that wait for them, such as `close`,
        continue."""
        self.sender.give_up_for_closing()

    async def close(self, timeout_ms: float | None, *, deliver: bool = True) -> None:
        """Flush and close; after `timeout_ms`, or without `deliver`, remaining records fail.

        An open transaction is aborted in any case.
        """
        self.intake.close()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                if self.transactions is not None:
                    limit_ms = (
                        self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
                    )
                    await self.transactions.close(limit_ms)
                if deliver:
                    await self.flush()
        except TimeoutError:
            pass
        finally:
            self.give_up()
            await self.sender.stop()
            if self.transactions is not None:
                await self.transactions.close(0)
            await self.keeper.close(0)
            self.routes.close()
            await asyncio.sleep(0)
