"""Producers of a simulated cluster: plain, idempotent, transactional. Each record is sent once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ottla.client.errors import TransactionFailed, TransactionTimedOut
from ottla.client.producer.producer import Producer
from ottla.client.values import RecordMetadata
from ottla.sim.checker.history import Outcome, Sending, Transaction
from ottla.sim.cluster.shape import TopicShape
from ottla.sim.cluster.work import NAME_HEADER, Client, Work
from ottla.sim.runtime import SimRuntime

PADDING_BYTES = (0, 0, 20, 300)
DELIVERY_MS = 12_000
TRANSACTION_MS = 8000
COMMITS_TRIED_MAX = 4
CLOSE_MS = 15_000
TOMBSTONE_RATE = 0.1
KEY_SENDINGS = 10
"""After so many records a writer gives up one of its keys for another: what was last stays last."""
BURST_MAX = 4
"""Records that come together share batches: more of them for the same simulated traffic."""


class Writer(Client):
    """Sends records one after another, without waiting for each."""

    def __init__(
        self, work: Work, runtime: SimRuntime, name: str, topic: TopicShape, **options: Any
    ) -> None:
        super().__init__(work, runtime, name)
        self._topic = topic
        self._history = work.history_of(topic)
        self._own_options = options
        self._durable = str(options.get("acks", "all")) == "all"
        self._once = options.get("enable_idempotence", True)
        self._pause_s = self.chance.choice((0.3, 0.8, 1.5))
        self._count = 0

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        options = {"delivery_timeout_ms": DELIVERY_MS, "max_block_ms": 8000, **self._own_options}
        producer = Producer(**self.options, **options)
        await producer.start()
        try:
            await self._produce(producer)
        finally:
            await producer.close(CLOSE_MS)

    async def _produce(self, producer: Producer) -> None:
        until = self.lifetime()
        while self.work.writing and self.work.now() < until:
            for _ in range(self.chance.randint(1, BURST_MAX)):
                await self.send(producer, None)
            await asyncio.sleep(self.chance.expovariate(1.0) * self._pause_s)

    async def send(self, producer: Producer, transaction: Transaction | None) -> Any:
        self._count += 1
        name = f"{self.life}/{self._count}"
        partition = self.chance.choice(self._topic.all())
        sending = self._history.sending(
            Sending(name, self.life, partition, self._durable, self._once, transaction)
        )
        if self._topic.keys:
            oldest = self._count // KEY_SENDINGS
            sending.key = f"key-{oldest + self.chance.randrange(self._topic.keys)}"
        is_tombstone = sending.key is not None and self.chance.random() < TOMBSTONE_RATE
        padding = self.chance.randbytes(self.chance.choice(PADDING_BYTES))
        return await producer.send(
            partition.topic,
            key=(sending.key or name).encode(),
            value=None if is_tombstone else padding,
            headers=None if sending.key is None else [(NAME_HEADER, name.encode())],
            partition=partition.partition,
            on_delivery=partial(self._delivered, sending),
        )

    def _delivered(
        self, sending: Sending, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        if metadata is not None:
            sending.acknowledged(metadata.offset if metadata.offset >= 0 else -1)
            if metadata.offset < 0:
                sending.offset = None
            self.work.did(self.name)
        elif error is not None:
            self.work.trouble(error)


class TransactionalWriter(Writer):
    """One transaction after another; most are committed, some aborted, some left to their fate."""

    def __init__(self, work: Work, runtime: SimRuntime, name: str, topic: TopicShape) -> None:
        super().__init__(
            work,
            runtime,
            name,
            topic,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_MS,
        )

    async def _produce(self, producer: Producer) -> None:
        await producer.init_transactions()
        until = self.lifetime()
        while self.work.writing and self.work.now() < until:
            await producer.begin_transaction()
            transaction = self._history.begin(self.life)
            try:
                for _ in range(self.chance.randint(1, 3)):
                    for _ in range(self.chance.randint(1, BURST_MAX)):
                        await self.send(producer, transaction)
                    await asyncio.sleep(self.chance.expovariate(1.0) * self._pause_s / 2)
                if self.chance.random() < 0.03:
                    return  # as if the program had forgotten it: closing aborts, or its timeout
                await self._end(producer, transaction)
            except TransactionFailed:
                await self._abort(producer, transaction)

    async def _end(self, producer: Producer, transaction: Transaction) -> None:
        if self.chance.random() < 0.75:
            await commit(producer, transaction, self.work)
            self.work.did(self.name)
        else:
            await self._abort(producer, transaction)

    async def _abort(self, producer: Producer, transaction: Transaction) -> None:
        await producer.abort_transaction()
        transaction.outcome = Outcome.ABORTED


async def commit(producer: Producer, transaction: Transaction, work: Work) -> None:
    """As the client asks for it: a commit that took too long is called again."""
    transaction.end_asked_s = work.now()
    for attempt in range(COMMITS_TRIED_MAX):
        try:
            await producer.commit_transaction()
        except TransactionTimedOut as error:
            work.trouble(error)
            if attempt == COMMITS_TRIED_MAX - 1:
                raise
        else:
            transaction.outcome = Outcome.OK
            return
