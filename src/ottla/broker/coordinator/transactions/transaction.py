"""The state of one transactional id, and how each event changes it.

A producer is identified by its id and epoch. There can be two such pairs:

- `producer_id`, `producer_epoch`: those of the transaction itself. Its markers carry them.
- the `identity`: the pair that the client was told last and has to send. It differs only while a
  producer that came back keeps the open transaction of its predecessor (KIP-939, two-phase commit
  by an external coordinator); `next_producer_id` and `next_producer_epoch` then hold it.

Epochs end at 32767. No client ever gets that one: it is reserved to fence the last client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.broker.coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    PREVIOUS,
    TransactionState,
)
from ottla.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_LAST: Final = 32766
"""The last epoch that a client may get."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a producer that takes part in a two-phase commit: never."""
EPOCH_BUMP_FROM: Final = 2
"""The protocol version (`transaction.version`) from which on each end of a transaction gives the
client a new epoch, so that nothing sent with the old epoch can slip into the next transaction."""


class Identity(NamedTuple):
    producer_id: int
    producer_epoch: int


NOBODY: Final = Identity(NO_PRODUCER_ID, NO_EPOCH)


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_EPOCH
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions of the transaction; once prepared, those whose markers are not written yet."""
    start_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0
    """The client's protocol version when the state was entered."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change, by which a request that a client repeats across a
    change of ids is recognized."""
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    """The client's previous epoch, by which a repeated InitProducerId is recognized. The log has no
    field for it; on loading it is derived where possible."""

    # --- queries --------------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """True if the open transaction belongs to a predecessor of the present client."""
        return self.state is ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def identity(self) -> Identity:
        """The producer id and epoch that the client must send."""
        if self.is_kept:
            return Identity(self.next_producer_id, self.next_producer_epoch)
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def following(self) -> Identity:
        """The producer id and epoch that the client must send after the prepared transaction."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Identity(self.next_producer_id, max(self.next_producer_epoch, 0))
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def epochs_are_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_LAST

    @property
    def never_times_out(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    # --- changing -------------------------------------------------------------------------------

    def _moved(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        if self.state not in PREVIOUS[state]:
            raise AssertionError(f"{self.transactional_id}: {self.state.title} -> {state.title}")
        return self._replace(
            state=state, updated_ms=now_ms, previous_producer_id=self.producer_id, **changes
        )

    def initialized(
        self, identity: Identity, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """InitProducerId: the client is `identity`, and no transaction is open."""
        return self._moved(
            EMPTY,
            now_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
        )

    def kept(self, identity: Identity, timeout_ms: int, now_ms: int) -> Transaction:
        """InitProducerId that keeps the open transaction for the client to end."""
        return self._moved(
            ONGOING,
            now_ms,
            next_producer_id=identity.producer_id,
            next_producer_epoch=identity.producer_epoch,
            last_producer_epoch=NO_EPOCH,
            timeout_ms=timeout_ms,
        )

    def added(self, partitions: Iterable[TopicPartition], version: int, now_ms: int) -> Transaction:
        """Add partitions; the first ones begin the transaction."""
        return self._moved(
            ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            client_version=version,
        )

    def prepared(
        self, *, commit: bool, version: int, take_producer_id: Callable[[], int], now_ms: int
    ) -> Transaction:
        """Decide the outcome.

        With protocol 2 the epoch is bumped, and a client whose epochs are used up gets a new
        producer id.
        """
        changes: dict[str, Any] = {}
        if version >= EPOCH_BUMP_FROM or self.is_kept:
            changes = self._grown(take_producer_id)
        return self._moved(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            now_ms,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            client_version=version,
            **changes,
        )

    def _grown(self, take_producer_id: Callable[[], int]) -> dict[str, Any]:
        producer_id, epoch = self.identity
        following = Identity(producer_id, epoch + 1)
        if epoch >= EPOCH_LAST:
            following = Identity(take_producer_id(), 0)
        # The markers' epoch is above that of every batch of the transaction, and of every client
        # that was given the same producer id: later batches of these are refused.
        marked = epoch if producer_id == self.producer_id else self.producer_epoch
        changes: dict[str, Any] = {
            "producer_epoch": min(marked + 1, EPOCH_LAST + 1),
            "last_producer_epoch": epoch,
            "next_producer_id": NO_PRODUCER_ID,
            "next_producer_epoch": NO_EPOCH,
        }
        if following.producer_id != self.producer_id:
            changes["next_producer_id"] = following.producer_id
            # Kafka leaves out an epoch of 0, and would not understand another value.
            changes["next_producer_epoch"] = following.producer_epoch or NO_EPOCH
        return changes

    def marked(self, partitions: Iterable[TopicPartition]) -> Transaction:
        """Markers have been written. This is not stored: after a crash they are written again."""
        assert self.state in PREPARED
        return self._replace(partitions=self.partitions.difference(partitions))

    def completed(self, now_ms: int) -> Transaction:
        """All markers have been written."""
        following = self.following
        return self._moved(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            now_ms,
            producer_id=following.producer_id,
            producer_epoch=following.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=frozenset(),
        )

    # --- records --------------------------------------------------------------------------------

    @property
    def key(self) -> TransactionLogKey:
        return TransactionLogKey(transactional_id=self.transactional_id)

    def value(self) -> TransactionLogValue:
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            next_producer_epoch=self.next_producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=int(self.state),
            transaction_partitions=None
            if self.state is EMPTY
            else [
                PartitionsSchema(topic=topic, partition_ids=indexes)
                for topic, indexes in by_topic(self.partitions).items()
            ],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )


def read(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the transaction that a record of the log describes."""
    stored = Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        producer_epoch=value.producer_epoch,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
    )
    return stored._replace(last_producer_epoch=_last_epoch(stored))


def _last_epoch(stored: Transaction) -> int:
    """Return the epoch of the client that ended the transaction: with protocol 2, the previous
    one."""
    if stored.client_version < EPOCH_BUMP_FROM or stored.state in (EMPTY, ONGOING):
        return NO_EPOCH
    if stored.producer_epoch > 0:
        return stored.producer_epoch - 1
    return EPOCH_LAST if stored.previous_producer_id != stored.producer_id else NO_EPOCH


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions as in requests and records, in a stable order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
