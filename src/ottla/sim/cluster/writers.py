"""Producers of a simulated cluster: plain, idempotent, transactional. Each record is sent once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ottla.client.errors import TransactionFailed, TransactionFatal, TransactionTimedOut
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
HASTE_S_MAX = 0.002
FAIR_PAUSE_S_MAX = 2.0
"""Three pauses within a transaction take less than its timeout. If no fault is injected, a client
must not be the reason for an error either."""
TOMBSTONE_RATE = 0.1
KEY_SENDINGS = 10
"""A writer replaces one of its keys after this many records: a key's last record stays."""
BURST_MAX = 4
"""Records sent together share batches: more records for the same simulated traffic."""


Habit = Callable[["Writer", Producer], Awaitable[None]]
"""Sends records of a writer until its life ends."""


class Writer(Client):
    """Sends records one after another, without waiting for each; its habit says when."""

    def __init__(
        self,
        work: Work,
        runtime: SimRuntime,
        name: str,
        topic: TopicShape,
        habit: Habit | None = None,
        **options: Any,
    ) -> None:
        super().__init__(work, runtime, name)
        self.topic = topic
        self.history = work.history_of(topic)
        self._habit = habit or send_in_bursts
        self._own_options = options
        self._durable = str(options.get("acks", "all")) == "all"
        self._once = options.get("enable_idempotence", True)
        self._pause_s = self.chance.choice((0.3, 0.8, 1.5))
        self._count = 0

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        try:
            await self._produce()
        except TransactionFatal as error:
            self.work.refused(self.name, error)
            raise

    async def _produce(self) -> None:
        options = {"delivery_timeout_ms": DELIVERY_MS, "max_block_ms": 8000, **self._own_options}
        producer = Producer(**self.options, **options)
        await producer.start()
        try:
            await self._habit(self, producer)
        finally:
            await producer.close(CLOSE_MS)

    async def pause(self, share: float = 1.0) -> None:
        pause_s = self.chance.expovariate(1.0) * self._pause_s * share
        await asyncio.sleep(min(pause_s, FAIR_PAUSE_S_MAX) if self.work.is_fair else pause_s)

    async def send(self, producer: Producer, transaction: Transaction | None) -> Any:
        self._count += 1
        name = f"{self.life}/{self._count}"
        partition = self.chance.choice(self.topic.all())
        sending = self.history.sending(
            Sending(name, self.life, partition, self._durable, self._once, transaction)
        )
        if self.topic.keys:
            oldest = self._count // KEY_SENDINGS
            sending.key = f"key-{oldest + self.chance.randrange(self.topic.keys)}"
        is_tombstone = sending.key is not None and self.chance.random() < TOMBSTONE_RATE
        padding = self.chance.randbytes(self.chance.choice(PADDING_BYTES))
        return await producer.send(
            partition.topic,
            key=(sending.key or name).encode(),
            value=None if is_tombstone else padding,
            headers=None if sending.key is None else [(NAME_HEADER, name.encode())],
            partition=partition.partition,
            on_delivery=partial(self._delivered, sending, self.work.now()),
        )

    def _delivered(
        self,
        sending: Sending,
        sent_s: float,
        metadata: RecordMetadata | None,
        error: Exception | None,
    ) -> None:
        self.work.waited(self.name, "a record to be stored", sent_s)
        if metadata is not None:
            sending.acknowledged(metadata.offset if metadata.offset >= 0 else -1)
            if metadata.offset < 0:
                sending.offset = None
            self.work.did(self.name)
        elif error is not None:
            self.work.trouble(error)


async def send_in_bursts(writer: Writer, producer: Producer) -> None:
    until = writer.lifetime()
    while writer.work.writing and writer.work.now() < until:
        for _ in range(writer.chance.randint(1, BURST_MAX)):
            await writer.send(producer, None)
        await writer.pause()


class Transactions:
    """Writes one transaction after another: most are committed, some aborted, some abandoned."""

    COMMIT_RATE = 0.75

    async def __call__(self, writer: Writer, producer: Producer) -> None:
        await producer.init_transactions()
        until = writer.lifetime()
        while writer.work.writing and writer.work.now() < until:
            await producer.begin_transaction()
            transaction = writer.history.begin(writer.life)
            try:
                for _ in range(writer.chance.randint(1, 3)):
                    for _ in range(writer.chance.randint(1, BURST_MAX)):
                        await writer.send(producer, transaction)
                    await writer.pause(0.5)
                if writer.chance.random() < 0.03:
                    # As if the program forgot it: close() or the transaction timeout aborts it.
                    return
                await _end(writer, producer, transaction, self.COMMIT_RATE)
            except TransactionFailed as error:
                writer.work.refused(writer.name, error)
                await _abort(producer, transaction)


class HastyTransactions:
    """Writes some transactions in a row, each begun when the last one is decided and ended before
    its first batch is answered."""

    COMMIT_RATE = 0.5
    ROW_MAX = 6

    async def __call__(self, writer: Writer, producer: Producer) -> None:
        await producer.init_transactions()
        until = writer.lifetime()
        while writer.work.writing and writer.work.now() < until:
            for _ in range(writer.chance.randint(1, self.ROW_MAX)):
                await self._transact(writer, producer)
            await writer.pause()

    async def _transact(self, writer: Writer, producer: Producer) -> None:
        await producer.begin_transaction()
        transaction = writer.history.begin(writer.life)
        try:
            for _ in writer.topic.all():
                await writer.send(producer, transaction)
            await asyncio.sleep(writer.chance.random() * HASTE_S_MAX)
            await _end(writer, producer, transaction, self.COMMIT_RATE)
        except TransactionFailed as error:
            writer.work.refused(writer.name, error)
            await _abort(producer, transaction)


def transactional_writer(work: Work, runtime: SimRuntime, name: str, topic: TopicShape) -> Writer:
    options = _transactional_options(name, linger_ms=5)
    return Writer(work, runtime, name, topic, Transactions(), **options)


def hasty_writer(work: Work, runtime: SimRuntime, name: str, topic: TopicShape) -> Writer:
    options = _transactional_options(name, linger_ms=0)
    return Writer(work, runtime, name, topic, HastyTransactions(), **options)


def _transactional_options(name: str, linger_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "transaction_timeout_ms": TRANSACTION_MS,
        "linger_ms": linger_ms,
    }


async def _end(
    writer: Writer, producer: Producer, transaction: Transaction, commit_rate: float
) -> None:
    asked_s = writer.work.now()
    if writer.chance.random() < commit_rate:
        await commit(producer, transaction, writer.work)
        writer.work.did(writer.name)
    else:
        await _abort(producer, transaction)
    writer.work.waited(writer.name, "the end of a transaction", asked_s)


async def _abort(producer: Producer, transaction: Transaction) -> None:
    await producer.abort_transaction()
    transaction.outcome = Outcome.ABORTED


async def commit(producer: Producer, transaction: Transaction, work: Work) -> None:
    """Commit as the producer requires: a commit that timed out is called again."""
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
