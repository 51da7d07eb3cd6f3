"""The pieces of a running producer, put together: intake -> accumulator -> sender -> delivery."""

from __future__ import annotations

import asyncio

from ottla.client.network.cluster import Cluster
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.idempotence import IdempotentIdentity
from ottla.client.producer.identity import IdentityKeeper, Nobody
from ottla.client.producer.intake import Intake
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.routes import Routes
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction_manager import TransactionManager
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
            self.transactions = TransactionManager(self.cluster, self.settings, self.sender)
            return self.transactions
        if self.settings.is_idempotent:
            return IdempotentIdentity(
                self.cluster,
                self.settings,
                wake=self.sender.wake,
                give_up=self.sender.give_up_all,
            )
        return Nobody()

    async def flush(self) -> None:
        """Return when each record given so far has its outcome, and those who wait know it."""
        clock = self.cluster.runtime.clock
        began = clock.now()
        await self.sender.flush()
        await asyncio.sleep(0)
        self.metrics.flush_ns.add(int((clock.now() - began) * 1e9))

    async def send_batch(self, batch: ProducerBatch) -> None:
        """Take a whole batch; waits for room, and lets the loop run."""
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
        """What has no outcome yet fails; whoever waits for it, a `close` too, goes on."""
        self.sender.give_up_for_closing()

    async def close(self, timeout_ms: float | None, *, deliver: bool = True) -> None:
        """End in order; after `timeout_ms`, or without `deliver`, what is left fails.

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
            await self.keeper.close(0)
            self.routes.close()
            await asyncio.sleep(0)
