"""Implements the application's transaction calls.

The states are in `state.py`, the requests in `calls.py`, the handling of batches in `keeper.py`.
Each call waits for its turn, makes one step of the state machine, and may take `max_block_ms`. A
call that timed out or was cancelled can be made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from ottla.client.errors import (
    BadSetting,
    ClientError,
    TransactionAborted,
    TransactionError,
    TransactionTimedOut,
)
from ottla.client.network.cluster import Cluster
from ottla.client.producer.sending.identity import NOBODY, Identity, Outbox
from ottla.client.producer.transactions.keeper import OpenTransaction, TransactionKeeper
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.transactions.protocol import PROTOCOL_1, PROTOCOL_2
from ottla.client.producer.transactions.state import State, Trigger
from ottla.client.producer.transactions.verdicts import (
    Verdict,
    verdict_on_error,
    verdict_on_request,
)
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client")

DROP_AGAIN_S: Final = 0.1
_LEFT_OPEN: Final = frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING})
"""States in which closing the producer aborts the transaction. A commit that was begun may have
happened, and a prepared transaction is ended by another process."""
_METRICS: Final = {
    Trigger.INIT: "txn-init-time-ns-total",
    Trigger.BEGIN: "txn-begin-time-ns-total",
    Trigger.SEND: "txn-send-offsets-time-ns-total",
    Trigger.PREPARE: "txn-prepare-time-ns-total",
    Trigger.COMMIT: "txn-commit-time-ns-total",
    Trigger.ABORT: "txn-abort-time-ns-total",
}


class TransactionManager:
    def __init__(self, cluster: Cluster, settings: ProducerSettings, outbox: Outbox) -> None:
        self.keeper = TransactionKeeper(cluster, settings, outbox)
        self._cluster = cluster
        self._settings = settings
        self._outbox = outbox
        self._transactional_id = self.keeper.transactional_id
        self._machine = self.keeper.machine
        self._calls = self.keeper.calls
        self._partitions = self.keeper.partitions
        self._turn = asyncio.Lock()
        self._kept = NOBODY
        """The identity that opened the transaction which this producer has taken over."""
        self._is_closed = False

    @property
    def state(self) -> State:
        return self._machine.state

    # Calls of the application

    async def init(self, *, keep_prepared: bool = False) -> None:
        two_phase = self._settings.transaction_two_phase_commit_enable
        if keep_prepared and not two_phase:
            raise BadSetting(
                "keep_prepared", "only with transaction_two_phase_commit_enable=True (KIP-939)"
            )
        async with self._operation(Trigger.INIT):
            self._machine.step(Trigger.INIT)
            identity, self._kept = await self._calls.init_producer_id(
                self._settings.transaction_timeout_ms,
                two_phase=two_phase,
                keep_prepared=keep_prepared,
            )
            self.keeper.protocol = self._calls.protocol
            self._adopt(identity)
            self.keeper.open.may_be_open = self.keeper.open.is_open = self._kept.known
            self._machine.step(Trigger.FOUND_PREPARED if self._kept.known else Trigger.INITIALIZED)
            self._outbox.wake()

    async def begin(self) -> None:
        async with self._operation(Trigger.BEGIN):
            if self.keeper.protocol == PROTOCOL_1 and self._calls.protocol == PROTOCOL_2:
                # The cluster was upgraded. Pending requests of the old epoch must not end up in a
                # transaction of protocol 2, which brokers extend with every batch.
                await self._renew()
            self.keeper.protocol = self._calls.protocol
            self._machine.step(Trigger.BEGIN)
            self.keeper.open.began_s = self._cluster.runtime.clock.now()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        async with self._operation(Trigger.SEND, "send_offsets_to_transaction()"):
            if not offsets:
                return
            self.keeper.open.may_be_open = True
            try:
                if self.keeper.protocol == PROTOCOL_1:
                    await self._calls.add_offsets(self.keeper.identity, group.group_id)
                    self.keeper.open.is_open = True
                await self._calls.commit_offsets(
                    self.keeper.identity, offsets, group, self.keeper.protocol
                )
                self.keeper.open.is_open = True
            except asyncio.CancelledError:
                # If it were committed without them, the same input would be processed again.
                lost = ClientError("it is not known whether the offsets are part of it")
                self.keeper.enter_failure(Verdict.ABORT, self._calls.trouble or lost)
                raise

    async def prepare(self) -> PreparedTransaction:
        async with self._operation(Trigger.PREPARE):
            self._machine.step(Trigger.PREPARE)
            await self._flush()
            who = self._kept if self._kept.known else self.keeper.identity
            return PreparedTransaction(
                self._transactional_id, who.producer_id, who.epoch, not self.keeper.open.may_be_open
            )

    async def complete(self, prepared: PreparedTransaction) -> None:
        """Commit the prepared transaction if it is `prepared`, else abort it: transactions prepared
        before the last recorded `prepared` have ended, and later ones were never recorded."""
        if self.state is State.READY:
            return  # nothing was open
        if self.state is State.IN_TRANSACTION:
            raise self._machine.refusal(Trigger.BEGIN)
        open_one = self._kept if self._kept.known else self.keeper.identity
        is_same = open_one == Identity(prepared.producer_id, prepared.producer_epoch)
        if self.state is State.COMMITTING or (self.state is State.PREPARED and is_same):
            await self.commit()
        else:
            await self.abort()

    async def commit(self) -> None:
        async with self._operation(Trigger.COMMIT):
            self._machine.step(Trigger.COMMIT)
            await self._flush()
            if self.keeper.open.may_be_open:
                self._adopt(await self._end(commit=True))
            self._finish()

    async def abort(self, within_ms: float | None = None) -> None:
        async with self._operation(Trigger.ABORT, within_ms=within_ms):
            self._machine.step(Trigger.ABORT)
            await self._drop_all()
            await self._partitions.settled()
            opened = self.keeper.open
            if opened.may_be_open and not (opened.is_ended or opened.is_forgotten):
                await self._end_by_abort()
                opened.is_ended = True
            if opened.is_forgotten or (opened.needs_renewal and self.keeper.protocol == PROTOCOL_1):
                await self._renew()
            self._finish()

    async def close(self, within_ms: float) -> None:
        """Abort an open transaction, unless it is prepared or may have been committed."""
        if self.state in _LEFT_OPEN and not self._is_closed:
            try:
                await self.abort(within_ms)
            except TransactionError as error:
                log.warning(
                    "the open transaction of %r is left to its timeout: %s",
                    self._transactional_id,
                    error,
                )
        self._is_closed = True
        self._partitions.close()

    @asynccontextmanager
    async def transaction(self, abort: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Begin; commit at the end, or `abort` if the commit or the block fails. A transaction that
        the block itself has ended or prepared is left as it is."""
        await self.begin()
        try:
            yield
            if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                await self.commit()
        except BaseException as error:
            if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                try:
                    await abort()
                except TransactionError as failure:
                    error.add_note(f"The transaction could not be aborted either: {failure}")
            raise

    # Steps

    @asynccontextmanager
    async def _operation(
        self, trigger: Trigger, call: str | None = None, within_ms: float | None = None
    ) -> AsyncIterator[None]:
        limit_ms = self._settings.max_block_ms if within_ms is None else within_ms
        self._calls.trouble = None
        began_s = self._cluster.runtime.clock.now()
        try:
            async with asyncio.timeout(limit_ms / 1000), self._turn:
                self._machine.check(trigger, call)
                yield
        except TransactionError:
            raise
        except TimeoutError:
            self._machine.raise_failure()
            trouble = self._calls.trouble
            raise TransactionTimedOut(call or trigger.value, int(limit_ms), trouble) from trouble
        except (KafkaError, ClientError) as error:
            self.keeper.enter_failure(verdict_on_error(error), error)
            self._machine.raise_failure()
            raise
        finally:
            took_s = self._cluster.runtime.clock.now() - began_s
            self._cluster.metrics.counter(_METRICS[trigger]).add(int(took_s * 1e9))

    async def _flush(self) -> None:
        """Send everything, and raise if a record failed (see `failed`)."""
        await self._outbox.flush()
        self._machine.raise_failure()

    async def _drop_all(self) -> None:
        """Drop all unsent batches. Pending requests may finish; a batch whose request fails
        meanwhile waits for a retry, and is dropped as well."""
        while True:
            self.keeper.open.needs_renewal |= self._outbox.drop_unsent(
                TransactionAborted(self._transactional_id)
            )
            try:
                async with asyncio.timeout(DROP_AGAIN_S):
                    await self._outbox.drained()
                return
            except TimeoutError:
                continue

    async def _end(self, *, commit: bool) -> Identity:
        return await self._calls.end(
            self.keeper.identity, commit=commit, protocol=self.keeper.protocol
        )

    async def _end_by_abort(self) -> None:
        try:
            self._adopt(await self._end(commit=False))
        except KafkaError as error:
            if verdict_on_request(error.code) is Verdict.RENEW:
                self.keeper.open.is_forgotten = True
            elif self.keeper.open.is_open or error.code is not ErrorCode.INVALID_TXN_STATE:
                raise
            # Otherwise the partitions were never added, so there is nothing to end.

    async def _renew(self) -> None:
        """Get the next epoch of this producer or, if it was forgotten, a new producer id."""
        identity, _ = await self._calls.init_producer_id(
            self._settings.transaction_timeout_ms,
            renew=self.keeper.identity,
            two_phase=self._settings.transaction_two_phase_commit_enable,
        )
        self._adopt(identity)

    def _adopt(self, identity: Identity) -> None:
        if identity != self.keeper.identity:
            self.keeper.identity = identity
            self._outbox.forget_sequences()

    def _finish(self) -> None:
        self._machine.step(Trigger.ENDED)
        self._kept = NOBODY
        self.keeper.open = OpenTransaction()
        self._partitions.begin_anew()
        self._outbox.wake()
