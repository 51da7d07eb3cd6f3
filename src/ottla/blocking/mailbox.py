"""Passes records from many threads to the asynchronous producer in the loop.

A thread puts its record here and goes on; the loop takes all records at once. A call of the
producer first waits for the records put before it, so that the order is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from threading import Lock
from typing import Any

from ottla.blocking.loop_thread import LoopThread
from ottla.blocking.sent import Sent
from ottla.client.errors import (
    BufferExhausted,
    DeliveryFailed,
    ProducerClosed,
    TransactionStateError,
)
from ottla.client.producer.engine import Engine
from ottla.client.producer.producer import Producer
from ottla.client.producer.sending.losses import add_loss, records

log = logging.getLogger("ottla.client")

TAKEN_AT_ONCE_MAX = 2_000
"""Afterwards the loop handles other events, too."""
FULL_PAUSE_S = 0.005
REMEMBERED_MAX = 1_000
NO_PARTITION = -1

Letter = tuple[Sent, int, tuple[Any, ...]]
"""The caller's `Sent`, the record's size, and the arguments of `try_send`."""


class Mailbox:
    def __init__(self, thread: LoopThread, producer: Producer, engine: Engine) -> None:
        self._thread = thread
        self._producer = producer
        self._try_send = engine.intake.try_send
        self._transactions = engine.transactions
        self._mail: deque[Letter] = deque()
        self._lock = Lock()
        self._is_posted = False
        self._is_closed = False
        self._put_count = self._put_bytes = 0
        self._taken_count = self._taken_bytes = 0
        self._slow: asyncio.Task[None] | None = None
        self._refused: deque[Letter] = deque(maxlen=REMEMBERED_MAX)

    # In any thread

    @property
    def waiting_bytes(self) -> int:
        return self._put_bytes - self._taken_bytes

    def put(self, size: int, arguments: tuple[Any, ...]) -> Sent:
        thread = self._thread
        if thread.is_forked:
            thread.check()
        sent = Sent(thread)
        with self._lock:
            if self._is_closed:
                raise ProducerClosed
            self._mail.append((sent, size, arguments))
            self._put_count += 1
            self._put_bytes += size
        if not self._is_posted:
            self._is_posted = True
            thread.loop.call_soon_threadsafe(self._take)
        return sent

    def __len__(self) -> int:
        return len(self._mail)

    # In the loop

    def _take(self) -> None:
        """Pass the records on, as far as that needs no waiting."""
        self._is_posted = False  # first, so that records put from now on schedule another run
        if self._slow is not None:
            return
        mail, try_send = self._mail, self._try_send
        for _ in range(min(len(mail), TAKEN_AT_ONCE_MAX)):
            letter = mail[0]
            sent, size, arguments = letter
            try:
                taken = try_send(*arguments)
            except Exception as error:
                self._refuse(letter, error)
            else:
                if taken is None:
                    self._slow = asyncio.get_running_loop().create_task(self._take_waiting())
                    return
                sent.taken(taken)
            self._took(size)
        if mail:
            self._thread.loop.call_soon(self._take)

    async def _take_waiting(self) -> None:
        """Wait for the first record, which needs room or metadata; the others wait behind it."""
        letter = self._mail[0]
        sent, size, (topic, value, key, headers, partition, timestamp_ms, on_delivery) = letter
        try:
            while True:
                try:
                    taken = await self._producer.send(
                        topic,
                        value,
                        key,
                        headers=headers,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                        on_delivery=on_delivery,
                    )
                except BufferExhausted:
                    # The record was accepted, so wait: there will be room when batches have their
                    # outcome.
                    await asyncio.sleep(FULL_PAUSE_S)
                else:
                    sent.taken(taken)
                    break
        except Exception as error:
            self._refuse(letter, error)
        finally:
            self._slow = None
        self._took(size)
        self._take()

    def _took(self, size: int) -> None:
        self._mail.popleft()
        self._taken_count += 1
        self._taken_bytes += size

    async def taken(self) -> None:
        """Wait until all records that were put so far have been passed on."""
        goal = self._put_count
        while self._taken_count < goal:
            self._take()
            if self._slow is not None:
                await asyncio.wait([self._slow])
            else:
                await asyncio.sleep(0)

    def _refuse(self, letter: Letter, error: Exception) -> None:
        """Fail a record that was accepted from its thread but refused by the producer."""
        sent, _, arguments = letter
        sent.fail(error)
        if self._transactions is not None:
            self._transactions.keeper.lost(error)
        on_delivery = arguments[-1]
        if on_delivery is None:
            # In a transaction, the commit reports the failure.
            if self._transactions is None or isinstance(error, TransactionStateError):
                self._refused.append(letter)
            return
        try:
            on_delivery(None, error)
        except Exception:
            log.exception("a delivery callback failed")

    def raise_unseen(self) -> None:
        """Raise the error of the first refused record that the application has not seen."""
        for sent, _, (topic, _, _, _, partition, *_) in self._take_unseen():
            error = sent.exception()
            assert error is not None
            place = NO_PARTITION if partition is None else partition
            raise DeliveryFailed(topic, place, error) from error

    def _take_unseen(self) -> list[Letter]:
        unseen = [letter for letter in self._refused if not letter[0].is_seen]
        self._refused.clear()
        return unseen

    def close_for(self, error: BaseException) -> None:
        """Close because of an error, and add a note to it about the records that were not sent."""
        unseen = self._take_unseen()
        cause = unseen[0][0].exception() if unseen else "there was no time for more"
        count = len(unseen) + len(self._mail)
        self.close()
        self._refused.clear()
        if count:
            add_loss(error, f"{records(count)} not sent: {cause}")

    def close(self) -> None:
        """Drop the remaining records, and accept no more."""
        with self._lock:
            self._is_closed = True
        if self._slow is not None:
            self._slow.cancel()
        while self._mail:
            self._refuse(self._mail.popleft(), ProducerClosed())
