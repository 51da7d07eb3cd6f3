"""Exactly once: a group member reads a topic and writes its copy and offsets in transactions.

After any error the whole program starts over, from the offsets that its group committed.
"""

from __future__ import annotations

import asyncio

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.values import AnyRecord, TopicPartition
from ottla.sim.cluster.readers import PAUSE_S, POLL_MS, Stretches, group_options
from ottla.sim.cluster.work import Client, Work
from ottla.sim.cluster.writers import CLOSE_MS, DELIVERY_MS, TRANSACTION_MS
from ottla.sim.runtime import SimRuntime

GROUP = "copiers"
BATCH_BYTES = 10_000
"""Below the smallest segment size that the churn sets: brokers refuse batches that are larger."""


class Copier(Client):
    def __init__(self, work: Work, runtime: SimRuntime, name: str, protocol: str) -> None:
        super().__init__(work, runtime, name)
        self._protocol = protocol

    def goes_on(self) -> bool:
        return self.work.reading

    async def live(self) -> None:
        producer = Producer(
            **self.options,
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_MS,
            delivery_timeout_ms=DELIVERY_MS,
            max_block_ms=8000,
            batch_size=BATCH_BYTES,
        )
        await producer.start()
        try:
            await producer.init_transactions()
            await self._consume(producer)
        finally:
            await producer.close(CLOSE_MS)

    async def _consume(self, producer: Producer) -> None:
        stretches = Stretches(self, GROUP, committed=True)
        consumer = Consumer(
            self.work.shape.source.name,
            listener=stretches,
            **self.options,
            **group_options(GROUP, self._protocol),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=self.chance.choice((3, 500)),
        )
        await consumer.start()
        try:
            until = self.lifetime()
            while self.work.reading and self.work.now() < until:
                found = await consumer.poll(POLL_MS)
                stretches.note(found)
                if found:
                    await self._copy(producer, consumer, found)
                self.work.did(self.name)
                await asyncio.sleep(self.chance.expovariate(1.0) * PAUSE_S)
        finally:
            await consumer.close(5000)

    async def _copy(
        self,
        producer: Producer,
        consumer: Consumer,
        found: dict[TopicPartition, list[AnyRecord]],
    ) -> None:
        await producer.begin_transaction()
        for partition, records in found.items():
            for record in records:
                await producer.send(
                    self.work.shape.copy.name,
                    key=record.key,
                    value=record.value,
                    partition=partition.partition,
                )
        offsets = {partition: records[-1].offset + 1 for partition, records in found.items()}
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if self.chance.random() < 0.05:
            raise TimeoutError  # as if the program had failed before its commit
        await producer.commit_transaction()
