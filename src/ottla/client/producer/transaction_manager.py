"""Transactions of a producer: what the calls of the application do.

The states are in `transaction_state.py`, the requests in `transaction_calls.py`, and what becomes
of batches meanwhile in `transaction_keeper.py`. Each call takes its turn, makes one step of the
state machine, and may take `max_block_ms`. A call that was interrupted, by time or by cancellation,
leaves everything so that it can be made again.
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
from ottla.client.producer.identity import NOBODY, Identity, Outbox
from ottla.client.producer.prepared import PreparedTransaction
from ottla.client.producer.transaction_keeper import OpenTransaction, TransactionKeeper
from ottla.client.producer.transaction_protocol import PROTOCOL_1, PROTOCOL_2
from ottla.client.producer.transaction_state import State, Trigger
from ottla.client.producer.transaction_verdicts import (
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
"""What a producer that is closed has to abort. A commit that was begun may have happened, and what
is prepared is another's to end."""
_METRICS: Final = {
    Trigger.INIT: "txn-init-time-ns-total",
    Trigger.BEGIN: "txn-begin-time-ns-total",
    Trigger.SEND: "txn-send-offsets-time-ns-total",
    Trigger.PREPARE: "txn-prepare-time-ns-total",
    Trigger.COMMIT: "txn-commit-time-ns-total",
    Trigger.ABORT: "txn-abort-time-ns-total",
}


class TransactionManager(TransactionKeeper):
    def __init__(self, cluster: Cluster, settings: ProducerSettings, outbox: Outbox) -> None:
        super().__init__(cluster, settings, outbox)
        self._turn = asyncio.Lock()
        self._kept = NOBODY
        """Who opened the transaction that this producer has taken over."""
        self._is_closed = False

    # What the application calls

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
            self._protocol = self._calls.protocol
            self._adopt(identity)
            self._open.may_be_open = self._open.is_open = self._kept.known
            self._machine.step(Trigger.FOUND_PREPARED if self._kept.known else Trigger.INITIALIZED)
            self._outbox.wake()

    async def begin(self) -> None:
        async with self._operation(Trigger.BEGIN):
            if self._protocol == PROTOCOL_1 and self._calls.protocol == PROTOCOL_2:
                # The cluster was upgraded. What of the old epoch is still on its way must not end
                # up in a transaction whose partitions nobody announces.
                await self._renew()
            self._protocol = self._calls.protocol
            self._machine.step(Trigger.BEGIN)
            self._open.began_s = self._cluster.runtime.clock.now()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        async with self._operation(Trigger.SEND, "send_offsets_to_transaction()"):
            if not offsets:
                return
            self._open.may_be_open = True
            try:
                if self._protocol == PROTOCOL_1:
                    await self._calls.add_offsets(self.identity, group.group_id)
                    self._open.is_open = True
                await self._calls.commit_offsets(self.identity, offsets, group, self._protocol)
                self._open.is_open = True
            except asyncio.CancelledError:
                # Committed without them, the records would be made from the same input again.
                lost = ClientError("it is not known whether the offsets are part of it")
                self._enter_failure(Verdict.ABORT, self._calls.trouble or lost)
                raise

    async def prepare(self) -> PreparedTransaction:
        async with self._operation(Trigger.PREPARE):
            self._machine.step(Trigger.PREPARE)
            await self._flush()
            who = self._kept if self._kept.known else self.identity
            return PreparedTransaction(
                self.transactional_id, who.producer_id, who.epoch, not self._open.may_be_open
            )

    async def complete(self, prepared: PreparedTransaction) -> None:
        """Commit what is prepared if it is `prepared`, else abort it: what was prepared before the
        last `prepared` was noted down has ended, and what came after was never noted down."""
        if self.state is State.READY:
            return  # there was nothing open
        if self.state is State.IN_TRANSACTION:
            raise self._machine.refusal(Trigger.BEGIN)
        open_one = self._kept if self._kept.known else self.identity
        is_same = open_one == Identity(prepared.producer_id, prepared.producer_epoch)
        if self.state is State.COMMITTING or (self.state is State.PREPARED and is_same):
            await self.commit()
        else:
            await self.abort()

    async def commit(self) -> None:
        async with self._operation(Trigger.COMMIT):
            self._machine.step(Trigger.COMMIT)
            await self._flush()
            if self._open.may_be_open:
                self._adopt(await self._end(commit=True))
            self._finish()

    async def abort(self, within_ms: float | None = None) -> None:
        async with self._operation(Trigger.ABORT, within_ms=within_ms):
            self._machine.step(Trigger.ABORT)
            await self._drop_all()
            await self._partitions.settled()
            if self._open.may_be_open and not (self._open.is_ended or self._open.is_forgotten):
                await self._end_by_abort()
                self._open.is_ended = True
            if self._open.is_forgotten or (
                self._open.needs_renewal and self._protocol == PROTOCOL_1
            ):
                await self._renew()
            self._finish()

    async def close(self, within_ms: float) -> None:
        """Abort what is open, but neither what is prepared nor what may have been committed."""
        if self.state in _LEFT_OPEN and not self._is_closed:
            try:
                await self.abort(within_ms)
            except TransactionError as error:
                log.warning(
                    "the open transaction of %r is left to its timeout: %s",
                    self.transactional_id,
                    error,
                )
        self._is_closed = True
        self._partitions.close()

    @asynccontextmanager
    async def transaction(self, abort: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Begin; commit at the end, or `abort` if that or the block fails. What the block itself
        has ended or prepared is left as it is."""
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
            self._enter_failure(verdict_on_error(error), error)
            self._machine.raise_failure()
            raise
        finally:
            took_s = self._cluster.runtime.clock.now() - began_s
            self._cluster.metrics.counter(_METRICS[trigger]).add(int(took_s * 1e9))

    async def _flush(self) -> None:
        """Records that fail are told to `failed`."""
        await self._outbox.flush()
        self._machine.raise_failure()

    async def _drop_all(self) -> None:
        """Requests that are under way may end; a batch whose request fails now waits to be sent
        again, and is dropped as well."""
        while True:
            self._open.needs_renewal |= self._outbox.drop_unsent(
                TransactionAborted(self.transactional_id)
            )
            try:
                async with asyncio.timeout(DROP_AGAIN_S):
                    await self._outbox.drained()
                return
            except TimeoutError:
                continue

    async def _end(self, *, commit: bool) -> Identity:
        return await self._calls.end(self.identity, commit=commit, protocol=self._protocol)

    async def _end_by_abort(self) -> None:
        try:
            self._adopt(await self._end(commit=False))
        except KafkaError as error:
            if verdict_on_request(error.code) is Verdict.RENEW:
                self._open.is_forgotten = True
            elif self._open.is_open or error.code is not ErrorCode.INVALID_TXN_STATE:
                raise
            # Otherwise the partitions were never added: there is nothing to end.

    async def _renew(self) -> None:
        """The next epoch of this producer, or if it was forgotten, another id."""
        identity, _ = await self._calls.init_producer_id(
            self._settings.transaction_timeout_ms,
            renew=self.identity,
            two_phase=self._settings.transaction_two_phase_commit_enable,
        )
        self._adopt(identity)

    def _adopt(self, identity: Identity) -> None:
        if identity != self.identity:
            self.identity = identity
            self._outbox.forget_sequences()

    def _finish(self) -> None:
        self._machine.step(Trigger.ENDED)
        self._kept = NOBODY
        self._open = OpenTransaction()
        self._partitions.begin_anew()
        self._outbox.wake()
