"""Gives the batches of a transactional producer their identity, and handles their failures.

This is the side of a transaction that the sender uses. `manager.py` is the side that
the application uses.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ottla.client.errors import (
    ClientError,
    ProducerClosed,
    TransactionError,
    TransactionFailed,
    TransactionFatal,
    UnsupportedVersion,
)
from ottla.client.network.cluster import Cluster
from ottla.client.producer.sending.identity import NOBODY, Outbox
from ottla.client.producer.transactions.calls import TransactionCalls
from ottla.client.producer.transactions.partitions import NotAdded, TransactionPartitions
from ottla.client.producer.transactions.protocol import PROTOCOL_1, produce_version_max
from ottla.client.producer.transactions.state import State, TransactionMachine, Trigger
from ottla.client.producer.transactions.verdicts import (
    Verdict,
    fatal_error,
    verdict_on_batch,
    verdict_on_error,
)
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError

_ADMITTING: Final = frozenset({State.IN_TRANSACTION, State.COMMITTING, State.PREPARED})
"""States in which new partitions may be added: records given before the call are still sent."""
_ADMITTING_RETRIES: Final = frozenset({State.ABORTABLE_ERROR, State.ABORTING})
"""States in which only partitions that already take part may get batches, which are retries."""


@dataclass(slots=True)
class OpenTransaction:
    """The state of a transaction that is needed to end it."""

    began_s: float | None = None
    may_be_open: bool = False
    """True if the coordinator may know of it, and so must be told of its end."""
    is_open: bool = False
    """True if the coordinator certainly knows of it."""
    needs_renewal: bool = False
    """True if sequence numbers are lost, and a new epoch is needed to begin with 0 again."""
    is_forgotten: bool = False
    """True if the coordinator has forgotten the producer, and with it the transaction."""
    is_ended: bool = False


class TransactionKeeper:
    """An `IdentityKeeper`. Its state is also that of the application's calls."""

    is_transactional: Final = True

    def __init__(self, cluster: Cluster, settings: ProducerSettings, outbox: Outbox) -> None:
        assert settings.transactional_id is not None
        self.transactional_id: str = settings.transactional_id
        self._cluster = cluster
        self._settings = settings
        self._outbox = outbox
        self.machine = TransactionMachine()
        self.calls = TransactionCalls(cluster, self.transactional_id)
        self.partitions = TransactionPartitions(self._add, outbox.wake)
        self.identity = NOBODY
        self.protocol = PROTOCOL_1
        self.open = OpenTransaction()

    @property
    def state(self) -> State:
        return self.machine.state

    # Calls of the sender

    @property
    def produce_version_max(self) -> int | None:
        return produce_version_max(self.protocol)

    @property
    def ready(self) -> bool:
        return self.identity.known and self.machine.state is not State.FATAL_ERROR

    def admits(self, partition: TopicPartition) -> bool:
        state = self.machine.state
        if partition in self.partitions.joined:
            return state in _ADMITTING or state in _ADMITTING_RETRIES
        if state not in _ADMITTING:
            return False
        self.open.may_be_open = True
        if self.protocol == PROTOCOL_1:
            self.partitions.want(partition)
            return False
        self.partitions.join(partition)
        return True

    def check_send(self) -> None:
        if self.machine.state is not State.IN_TRANSACTION:
            raise self.machine.refusal(Trigger.SEND)

    def delivered(self, partition: TopicPartition) -> None:
        self.open.is_open = True

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        if not self.machine.allows(Trigger.ABORTABLE):
            return  # it has already failed for good
        self.open.needs_renewal = True
        verdict = Verdict.ABORT
        if isinstance(error, KafkaError):
            verdict = verdict_on_batch(error.code)
        elif isinstance(error, UnsupportedVersion):
            verdict = Verdict.FATAL
        self.enter_failure(verdict, error)

    def lost(self, error: Exception) -> None:
        """Handle a record of the transaction that was never put into a batch, although its caller
        went on. A record that came too late for the transaction is not missing in it."""
        too_late = isinstance(error, (TransactionError, ProducerClosed))
        if self.state is State.IN_TRANSACTION and not too_late:
            self.enter_failure(Verdict.ABORT, error)

    async def close(self, within_ms: float) -> None:
        self.partitions.close()

    async def _add(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(self._settings.delivery_timeout_ms / 1000):
                await self.calls.add_partitions(self.identity, partitions)
            self.open.is_open = True
        except TimeoutError as error:
            self.enter_failure(Verdict.ABORT, self.calls.trouble or error)
            raise NotAdded from error
        except (KafkaError, ClientError) as error:
            self.enter_failure(verdict_on_error(error), error)
            raise NotAdded from error

    # Failures

    def enter_failure(self, verdict: Verdict, error: Exception) -> None:
        failure: TransactionFailed | TransactionFatal
        if verdict is Verdict.RENEW:
            self.open.is_forgotten = True
        if verdict is Verdict.FATAL or not self.machine.allows(Trigger.ABORTABLE):
            failure = fatal_error(self.transactional_id, error, self._age_ms(), self._age_max_ms())
        else:
            failure = TransactionFailed(self.transactional_id, error)
        failure.__cause__ = error
        self.machine.fail(failure)
        # The sender may be iterating over its queues now.
        self._cluster.runtime.call_soon(self._drop_after, self.machine.error)

    def _drop_after(self, failure: Exception | None) -> None:
        """Drop unsent batches after a failure: they would wait in vain."""
        if failure is not None and self.machine.error is failure:
            self.open.needs_renewal |= self._outbox.drop_unsent(failure)
            self._outbox.wake()

    def _age_ms(self) -> int:
        """Return how long the transaction has been open."""
        if self.open.began_s is None:
            return 0
        return round((self._cluster.runtime.clock.now() - self.open.began_s) * 1000)

    def _age_max_ms(self) -> int | None:
        """Return the longest a transaction may be open; None if there is no limit (two-phase)."""
        two_phase = self._settings.transaction_two_phase_commit_enable
        return None if two_phase else self._settings.transaction_timeout_ms
