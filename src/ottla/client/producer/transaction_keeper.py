"""As whom the batches of a transactional producer are sent, when, and what their failures mean.

This side of a transaction faces the sender; the other one, which faces the application, is
`transaction_manager.py`.
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
from ottla.client.producer.identity import NOBODY, Outbox
from ottla.client.producer.transaction_calls import TransactionCalls
from ottla.client.producer.transaction_partitions import NotAdded, TransactionPartitions
from ottla.client.producer.transaction_protocol import PROTOCOL_1, produce_version_max
from ottla.client.producer.transaction_state import State, TransactionMachine, Trigger
from ottla.client.producer.transaction_verdicts import (
    Verdict,
    fatal_error,
    verdict_on_batch,
    verdict_on_error,
)
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError

_ADMITTING: Final = frozenset({State.IN_TRANSACTION, State.COMMITTING, State.PREPARED})
"""New partitions may take part: records that were given before the call are still sent."""
_ON_THE_WAY_OUT: Final = frozenset({State.ABORTABLE_ERROR, State.ABORTING})
"""Only what was sent before may be sent again."""


@dataclass(slots=True)
class OpenTransaction:
    """What is to be known of a transaction in order to end it."""

    began_s: float | None = None
    may_be_open: bool = False
    """Whether the coordinator may know of it, and so has to be told of its end."""
    is_open: bool = False
    """... and surely does."""
    needs_renewal: bool = False
    """Whether sequence numbers are lost, and a new epoch is needed to begin with 0 again."""
    is_forgotten: bool = False
    """Whether the coordinator has forgotten the producer, and with it the transaction."""
    is_ended: bool = False


class TransactionKeeper:
    """An `IdentityKeeper`, but for `close`."""

    is_transactional: Final = True

    def __init__(self, cluster: Cluster, settings: ProducerSettings, outbox: Outbox) -> None:
        assert settings.transactional_id is not None
        self.transactional_id: str = settings.transactional_id
        self._cluster = cluster
        self._settings = settings
        self._outbox = outbox
        self._machine = TransactionMachine()
        self._calls = TransactionCalls(cluster, self.transactional_id)
        self._partitions = TransactionPartitions(self._add, outbox.wake)
        self.identity = NOBODY
        self._protocol = PROTOCOL_1
        self._open = OpenTransaction()

    @property
    def state(self) -> State:
        return self._machine.state

    # What the sender asks and tells

    @property
    def produce_version_max(self) -> int | None:
        return produce_version_max(self._protocol)

    @property
    def ready(self) -> bool:
        return self.identity.known and self._machine.state is not State.FATAL_ERROR

    def admits(self, partition: TopicPartition) -> bool:
        state = self._machine.state
        if partition in self._partitions.joined:
            return state in _ADMITTING or state in _ON_THE_WAY_OUT
        if state not in _ADMITTING:
            return False
        self._open.may_be_open = True
        if self._protocol == PROTOCOL_1:
            self._partitions.want(partition)
            return False
        self._partitions.join(partition)
        return True

    def check_send(self) -> None:
        if self._machine.state is not State.IN_TRANSACTION:
            raise self._machine.refusal(Trigger.SEND)

    def delivered(self, partition: TopicPartition) -> None:
        self._open.is_open = True

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        if not self._machine.allows(Trigger.ABORTABLE):
            return  # it has failed for good already
        self._open.needs_renewal = True
        verdict = Verdict.ABORT
        if isinstance(error, KafkaError):
            verdict = verdict_on_batch(error.code)
        elif isinstance(error, UnsupportedVersion):
            verdict = Verdict.FATAL
        self._enter_failure(verdict, error)

    def lost(self, error: Exception) -> None:
        """A record that was given within the transaction never came into a batch, and whoever gave
        it went on. What comes too late for the transaction is not missing in it."""
        too_late = isinstance(error, (TransactionError, ProducerClosed))
        if self.state is State.IN_TRANSACTION and not too_late:
            self._enter_failure(Verdict.ABORT, error)

    async def _add(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(self._settings.delivery_timeout_ms / 1000):
                await self._calls.add_partitions(self.identity, partitions)
            self._open.is_open = True
        except TimeoutError as error:
            self._enter_failure(Verdict.ABORT, self._calls.trouble or error)
            raise NotAdded from error
        except (KafkaError, ClientError) as error:
            self._enter_failure(verdict_on_error(error), error)
            raise NotAdded from error

    # Failures

    def _enter_failure(self, verdict: Verdict, error: Exception) -> None:
        failure: TransactionFailed | TransactionFatal
        if verdict is Verdict.RENEW:
            self._open.is_forgotten = True
        if verdict is Verdict.FATAL or not self._machine.allows(Trigger.ABORTABLE):
            failure = fatal_error(self.transactional_id, error, self._age_ms(), self._age_max_ms())
        else:
            failure = TransactionFailed(self.transactional_id, error)
        failure.__cause__ = error
        self._machine.fail(failure)
        # The sender may be in the middle of its queues just now.
        self._cluster.runtime.call_soon(self._drop_after, self._machine.error)

    def _drop_after(self, failure: Exception | None) -> None:
        """What was not sent would wait in vain."""
        if failure is not None and self._machine.error is failure:
            self._open.needs_renewal |= self._outbox.drop_unsent(failure)
            self._outbox.wake()

    def _age_ms(self) -> int:
        """Since when the transaction is open."""
        if self._open.began_s is None:
            return 0
        return round((self._cluster.runtime.clock.now() - self._open.began_s) * 1000)

    def _age_max_ms(self) -> int | None:
        """How old a transaction may get; None: any age, somebody else decides on it."""
        two_phase = self._settings.transaction_two_phase_commit_enable
        return None if two_phase else self._settings.transaction_timeout_ms
