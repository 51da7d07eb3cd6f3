"""The state machine of one partition of `__transaction_state`: all transactional ids in it.

The outcome of a transaction is decided by one record (PrepareCommit or PrepareAbort). Only when
that is committed are markers ordered, one for each partition of the transaction, and only when all
of them are written does the Complete record follow. A shard that is loaded from its log orders the
markers of all prepared transactions again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.record_codec import TRANSACTION_RECORDS, encode
from ottla.broker.coordinator.shard import Token
from ottla.broker.coordinator.transactions import initializing
from ottla.broker.coordinator.transactions.ending import End, Judgement, judge_end
from ottla.broker.coordinator.transactions.listing import describe_transaction
from ottla.broker.coordinator.transactions.settings import TransactionSettings
from ottla.broker.coordinator.transactions.states import AT_REST, ONGOING, PREPARE_COMMIT, PREPARED
from ottla.broker.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    NOBODY,
    Identity,
    TopicPartition,
    Transaction,
    by_topic,
    read,
)
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.header import NO_SEQUENCE

SERVER_VERSION: Final = EPOCH_BUMP_FROM
"""The protocol version with which the coordinator itself aborts transactions."""

FINAL_REFUSALS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors on which a producer gives up its transaction, or itself."""
CONFIRMED_PARTITIONS_MAX: Final = 1_000
"""The most partitions of a transaction that is written again to confirm a refusal: a refusal must
not cost the log much more than the request that it answers."""

_EXPIRY: Final = "expiry"
_TIMEOUT: Final = "timeout"


class TransactionShard:
    """The transactional ids of one partition, and the requests and timers that change them.

    The rules are in the modules beside this one (`initializing`, `ending`, `transaction`); what is
    left is one thing, because every event ends in the same few steps: write the new state, order
    its markers, confirm a refusal. Its requests have passed the checks that need no state:
    `initializing.check_id` and `initializing.check_request`.
    """

    record_types: Mapping[int, tuple[str, str]] = TRANSACTION_RECORDS
    base_sequence = NO_SEQUENCE

    def __init__(
        self,
        settings: TransactionSettings,
        coordinator_epoch: int,
        take_producer_id: Callable[[], int],
        order_markers: Callable[[str], Token],
    ) -> None:
        """`take_producer_id` returns an unused id (or raises a retriable `KafkaError`).
        `order_markers` returns a token for a transactional id; it is answered, like a client, with
        the markers to write (a `WriteTxnMarkersRequest`) once the outcome is committed."""
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self._take_producer_id = take_producer_id
        self._order_markers = order_markers

    # --- requests -------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest, token: Token, now: Now, outbox: Outbox
    ) -> None:
        try:
            response = self._init(request, now, outbox)
        except KafkaError as error:
            self._confirm_refusal(request.transactional_id or "", error.code, outbox)
            response = InitProducerIdResponse(
                error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
            )
        outbox.reply(token, response)

    def _init(
        self, request: InitProducerIdRequest, now: Now, outbox: Outbox
    ) -> InitProducerIdResponse:
        expected = initializing.expected_identity(request)
        assert request.transactional_id is not None
        timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            transaction = Transaction(
                request.transactional_id, self._take_producer_id(), timeout_ms
            )
        initializing.check_client(transaction, expected)
        if transaction.state is not ONGOING:
            identity, last_epoch = initializing.next_identity(
                transaction, expected, self._take_producer_id
            )
            self._write(
                transaction.initialized(identity, last_epoch, timeout_ms, now.wall_ms), outbox
            )
            return _initialized(identity, NOBODY)
        if request.keep_prepared_txn:
            identity = initializing.keeping_identity(transaction, self._take_producer_id)
            kept = transaction.kept(identity, timeout_ms, now.wall_ms)
            self._write(kept, outbox)
            self._set_timeout(kept, now, outbox)
            ongoing = Identity(transaction.producer_id, transaction.producer_epoch)
            return _initialized(identity, ongoing)
        self._end(transaction, commit=False, version=SERVER_VERSION, now=now, outbox=outbox)
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "its open transaction is aborted first")

    def add_partitions(
        self,
        transactional_id: str,
        client: Identity,
        partitions: Iterable[TopicPartition],
        version: int,
        token: Token,
        now: Now,
        outbox: Outbox,
    ) -> None:
        """Add partitions to the transaction. `version` is the client's protocol
        (`transaction.version`): 2 if a broker asks on behalf of the client's first batch."""
        wanted = frozenset(partitions)
        transaction, error = self._find(transactional_id, client, pending_first=True)
        if transaction is not None and error is ErrorCode.NONE:
            if transaction.is_kept:
                error = ErrorCode.INVALID_TXN_STATE  # a kept transaction may only be ended
            elif transaction.state is not ONGOING or not wanted <= transaction.partitions:
                added = transaction.added(wanted, version, now.wall_ms)
                self._write(added, outbox)
                if transaction.state is not ONGOING:
                    self._set_timeout(added, now, outbox)
        self._confirm_refusal(transactional_id, error, outbox)
        outbox.reply(token, added_response(transactional_id, dict.fromkeys(wanted, error)))

    def verify_partitions(
        self,
        transactional_id: str,
        client: Identity,
        partitions: Iterable[TopicPartition],
        token: Token,
        outbox: Outbox,
    ) -> None:
        """Check whether partitions are part of this client's open transaction."""
        transaction, error = self._find(transactional_id, client, pending_first=False)
        taking_part = frozenset() if transaction is None else transaction.partitions
        errors = {
            partition: error
            if error is not ErrorCode.NONE or partition in taking_part
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
        for refusal in set(errors.values()) & FINAL_REFUSALS:
            self._confirm_refusal(transactional_id, refusal, outbox)
            break
        outbox.reply(token, added_response(transactional_id, errors))

    def _find(
        self, transactional_id: str, client: Identity, *, pending_first: bool
    ) -> tuple[Transaction | None, ErrorCode]:
        """Return the transaction to which this client may add partitions, or the error.
        `pending_first`: as in Kafka, adding waits while markers are being written, whatever the
        client; verifying checks the client first."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if pending_first and transaction.state in PREPARED:
            return transaction, ErrorCode.CONCURRENT_TRANSACTIONS
        if client.producer_id != transaction.identity.producer_id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if client.producer_epoch != transaction.identity.producer_epoch:
            return transaction, ErrorCode.PRODUCER_FENCED
        if transaction.state in PREPARED:
            return transaction, ErrorCode.CONCURRENT_TRANSACTIONS
        return transaction, ErrorCode.NONE

    def end(
        self,
        transactional_id: str,
        client: Identity,
        commit: bool,
        version: int,
        token: Token,
        now: Now,
        outbox: Outbox,
    ) -> None:
        """Serve EndTxn; a client of protocol 2 is told its new identity."""
        transaction = self.transactions.get(transactional_id)
        judged: Judgement
        if transaction is None:
            judged = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        else:
            judged = judge_end(transaction, client, commit=commit, version=version)
            if judged is End.PROCEED:
                try:
                    transaction = self._prepared(transaction, commit, version, now)
                except KafkaError as failure:  # no producer id is available
                    judged = failure.code
        if isinstance(judged, ErrorCode):
            self._confirm_refusal(transactional_id, judged, outbox)
            outbox.reply(token, EndTxnResponse(error_code=judged))
            return
        assert transaction is not None
        identity = transaction.following if version >= EPOCH_BUMP_FROM else NOBODY
        outbox.reply(
            token,
            EndTxnResponse(
                producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
            ),
        )
        if judged is End.PROCEED:
            self._carry_out(transaction, now, outbox)

    def describe(self, transactional_id: str, token: Token, outbox: Outbox) -> None:
        found = self.transactions.get(transactional_id)
        outbox.reply(
            token,
            DescribeTransactionsResponse(
                transaction_states=[describe_transaction(transactional_id, found)]
            ),
        )

    def list(self, token: Token, outbox: Outbox) -> None:
        """Answer with all transactions. They are immutable: the handler filters them in slices."""
        outbox.reply(token, [*self.transactions.values()])

    # --- the end of a transaction ---------------------------------------------------------------

    def _prepared(
        self, transaction: Transaction, commit: bool, version: int, now: Now
    ) -> Transaction:
        return transaction.prepared(
            commit=commit,
            version=version,
            take_producer_id=self._take_producer_id,
            now_ms=now.wall_ms,
        )

    def _end(
        self, transaction: Transaction, *, commit: bool, version: int, now: Now, outbox: Outbox
    ) -> None:
        self._carry_out(self._prepared(transaction, commit, version, now), now, outbox)

    def _carry_out(self, prepared: Transaction, now: Now, outbox: Outbox) -> None:
        self._write(prepared, outbox)
        if prepared.partitions:
            self._order(prepared, outbox)
        else:
            self._write(prepared.completed(now.wall_ms), outbox)

    def _order(self, prepared: Transaction, outbox: Outbox) -> None:
        marker = WritableTxnMarker(
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            transaction_result=prepared.state is PREPARE_COMMIT,
            topics=[
                WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(prepared.partitions).items()
            ],
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=prepared.client_version,
        )
        outbox.reply(
            self._order_markers(prepared.transactional_id), WriteTxnMarkersRequest(markers=[marker])
        )

    def markers_written(
        self,
        transactional_id: str,
        marked: Identity,
        partitions: Iterable[TopicPartition],
        now: Now,
        outbox: Outbox,
    ) -> None:
        """The markers of `marked` are committed in these partitions (or these are deleted)."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state not in PREPARED:
            return
        if marked != (transaction.producer_id, transaction.producer_epoch):
            return  # this concerns an earlier transaction
        transaction = transaction.marked(partitions)
        self.transactions[transactional_id] = transaction
        if not transaction.partitions:
            self._write(transaction.completed(now.wall_ms), outbox)

    def order_again(self, transactional_id: str, outbox: Outbox) -> None:
        """Order the markers again: the first order was lost before the outcome was known to be
        committed."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            self._order(transaction, outbox)

    # --- time -----------------------------------------------------------------------------------

    def _set_timeout(self, transaction: Transaction, now: Now, outbox: Outbox) -> None:
        """Set the timer of a transaction. It is never cancelled: if it fires after the end of its
        transaction it does nothing, and the next transaction of the id moves it, which is
        cheaper."""
        if not transaction.never_times_out:
            left_ms = transaction.start_ms + transaction.timeout_ms - now.wall_ms
            outbox.set_timer((_TIMEOUT, transaction.transactional_id), now.ms + max(left_ms, 0))

    def timer_fired(self, key: Hashable, now: Now, outbox: Outbox) -> None:
        if key == _EXPIRY:
            self._expire(now, outbox)
            return
        assert isinstance(key, tuple)
        transaction = self.transactions.get(key[1])
        if transaction is None or transaction.state is not ONGOING or transaction.never_times_out:
            return
        if transaction.start_ms + transaction.timeout_ms > now.wall_ms:
            self._set_timeout(transaction, now, outbox)
            return
        try:
            self._end(transaction, commit=False, version=SERVER_VERSION, now=now, outbox=outbox)
        except KafkaError:  # no producer id is available
            outbox.set_timer(key, now.ms + RETRY_MS)

    def _expire(self, now: Now, outbox: Outbox) -> None:
        """Remove the ids that have not been used for long."""
        expired = [
            transaction
            for transaction in self.transactions.values()
            if transaction.state in AT_REST
            and transaction.updated_ms <= now.wall_ms - self.settings.expiration_ms
        ]
        for transaction in expired:
            del self.transactions[transaction.transactional_id]
            outbox.append(transaction.key, None)
        outbox.set_timer(_EXPIRY, now.ms + self.settings.expiry_check_interval_ms)

    # --- the log --------------------------------------------------------------------------------

    def _write(self, transaction: Transaction, outbox: Outbox) -> None:
        self.transactions[transaction.transactional_id] = transaction
        outbox.append(transaction.key, transaction.value())

    def _confirm_refusal(self, transactional_id: str, error: ErrorCode, outbox: Outbox) -> None:
        """Delay a final refusal until it is certain that this broker still leads the partition.

        A coordinator that was replaced and does not know it yet would refuse by outdated state, as
        Kafka's does. Writing the state once more, unchanged, makes the answer wait for the replicas
        in sync. If these follow a new leader, the write fails and the client looks for that leader.
        """
        transaction = self.transactions.get(transactional_id)
        if error not in FINAL_REFUSALS or transaction is None or transaction.state in PREPARED:
            return
        if len(transaction.partitions) <= CONFIRMED_PARTITIONS_MAX:
            self._write(transaction, outbox)

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        return encode(record)

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            return
        assert isinstance(record.value, TransactionLogValue)
        self.transactions[transactional_id] = read(transactional_id, record.value)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: no record of this topic is written in a transaction."""

    def lead_on(self, leader_epoch: int) -> None:
        self.coordinator_epoch = leader_epoch

    def loaded(self, now: Now, outbox: Outbox) -> None:
        outbox.set_timer(_EXPIRY, now.ms + self.settings.expiry_check_interval_ms)
        for transaction in list(self.transactions.values()):
            if transaction.state is ONGOING:
                self._set_timeout(transaction, now, outbox)
            elif transaction.state not in PREPARED:
                continue
            elif transaction.partitions:
                self._order(transaction, outbox)
            else:
                self._write(transaction.completed(now.wall_ms), outbox)

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage, now: Now, outbox: Outbox
    ) -> None:
        """Do nothing: the marker writer notices deleted partitions."""


RETRY_MS: Final = 1_000
"""Delay before the next attempt to abort a transaction that has timed out."""


def _initialized(identity: Identity, ongoing: Identity) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.producer_epoch,
    )


def added_response(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse:
    """Return the response for one transaction, as brokers get it."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=errors[topic, index]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(errors).items()
                ],
            )
        ]
    )
