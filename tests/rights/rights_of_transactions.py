"""Samples of requests about producers and transactions."""

from __future__ import annotations

from rights_of_groups import TRANSACTION_KEY, find_coordinator, with_offsets
from rights_samples import (
    ALTER,
    CLUSTER_ACTION,
    DESCRIBE,
    EXISTING,
    GROUP,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    Grant,
    Sample,
    World,
    on_cluster,
)

from broker_wire import until_served
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.security.rights import Operation

ID = "transactional-id"
OPEN = "open-transaction"
NO_PRODUCER = 9_999
TWO_PHASES_FROM = 6
OF_CLIENTS = 3
"""The last version of AddPartitionsToTxn for clients; the later ones are for brokers."""
BY_CLIENT_PROTOCOL = 3
"""A version of TxnOffsetCommit whose clients add the group to the transaction themselves."""
OPEN_TIMEOUT_MS = 600_000
REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
COMMITTER = "transactional-group"


def _init(transactional_id: str | None, timeout_ms: int = 60_000) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )


def _initialized(
    world: World, transactional_id: str, timeout_ms: int = 60_000
) -> InitProducerIdResponse:
    find_coordinator(world, TRANSACTION_KEY, transactional_id)
    answer: InitProducerIdResponse = until_served(
        lambda: world.ask(_init(transactional_id, timeout_ms)),
        lambda answer: int(answer.error_code),
    )
    assert answer.error_code == 0
    return answer


def _ready(world: World) -> None:
    with_offsets(world)
    _initialized(world, ID)


def _add_as_client(
    transactional_id: str, producer_id: int, epoch: int = 0
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=EXISTING, partitions=[0])],
    )


def _open(world: World) -> None:
    who = _initialized(world, OPEN, OPEN_TIMEOUT_MS)
    added = world.ask(_add_as_client(OPEN, who.producer_id, who.producer_epoch), OF_CLIENTS)
    result = added.results_by_topic_v3_and_below[0].results_by_partition[0]
    assert result.partition_error_code == 0


def _commit_offsets(world: World) -> TxnOffsetCommitRequest:
    offset = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    return TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=COMMITTER,
        producer_id=NO_PRODUCER,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=EXISTING, partitions=[offset])],
    )


def _marker(world: World) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=NO_PRODUCER,
        producer_epoch=0,
        topics=[WritableTxnMarkerTopic(name="no-such-topic", partition_indexes=[0])],
    )
    return WriteTxnMarkersRequest(markers=[marker])


TRANSACTIONS: list[Sample] = [
    Sample(
        ApiKey.INIT_PRODUCER_ID,
        lambda world: _init("initialized"),
        grants=(Grant(WRITE, TRANSACTION, "initialized"),),
        refused=REFUSED,
        prepare=_ready,
    ),
    Sample(
        ApiKey.INIT_PRODUCER_ID,
        lambda world: _init(None),
        name="idempotent-by-cluster",
        grants=(on_cluster(Operation.IDEMPOTENT_WRITE),),
        refused=CLUSTER_REFUSED,
        prepare=_ready,
    ),
    Sample(
        ApiKey.INIT_PRODUCER_ID,
        lambda world: _init(None),
        name="idempotent-by-topic",
        grants=(Grant(WRITE, TOPIC, "any-topic"),),
        refused=CLUSTER_REFUSED,
        prepare=_ready,
    ),
    Sample(
        ApiKey.INIT_PRODUCER_ID,
        lambda world: InitProducerIdRequest(
            transactional_id="in-two-phases", transaction_timeout_ms=60_000, enable2_pc=True
        ),
        name="two-phase-commit",
        version=TWO_PHASES_FROM,
        grants=(
            Grant(WRITE, TRANSACTION, "in-two-phases"),
            Grant(Operation.TWO_PHASE_COMMIT, TRANSACTION, "in-two-phases"),
        ),
        refused=REFUSED,
        lacking=(REFUSED, REFUSED),
        prepare=_ready,
        compared=False,  # Kafka does not serve this version unless told to
    ),
    Sample(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda world: _add_as_client(ID, NO_PRODUCER),
        version=OF_CLIENTS,
        grants=(Grant(WRITE, TRANSACTION, ID), Grant(WRITE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        prepare=_ready,
    ),
    Sample(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda world: AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=ID,
                    producer_id=NO_PRODUCER,
                    topics=[AddPartitionsToTxnTopic(name=EXISTING, partitions=[0])],
                )
            ]
        ),
        name="of-brokers",
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        prepare=_ready,
    ),
    Sample(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda world: AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=NO_PRODUCER, group_id=COMMITTER
        ),
        grants=(Grant(WRITE, TRANSACTION, ID), Grant(READ, GROUP, COMMITTER)),
        refused=REFUSED,
        lacking=(REFUSED, GROUP_REFUSED),
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        prepare=_ready,
    ),
    Sample(
        ApiKey.TXN_OFFSET_COMMIT,
        _commit_offsets,
        version=BY_CLIENT_PROTOCOL,
        grants=(
            Grant(WRITE, TRANSACTION, ID),
            Grant(READ, GROUP, COMMITTER),
            Grant(READ, TOPIC, EXISTING),
        ),
        refused=REFUSED,
        lacking=(REFUSED, GROUP_REFUSED, TOPIC_REFUSED),
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        prepare=_ready,
    ),
    Sample(
        ApiKey.END_TXN,
        lambda world: EndTxnRequest(
            transactional_id=ID, producer_id=NO_PRODUCER, producer_epoch=0, committed=True
        ),
        grants=(Grant(WRITE, TRANSACTION, ID),),
        refused=REFUSED,
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        prepare=_ready,
    ),
    Sample(
        ApiKey.WRITE_TXN_MARKERS,
        _marker,
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Sample(
        ApiKey.WRITE_TXN_MARKERS,
        _marker,
        name="by-administrators",
        grants=(on_cluster(ALTER),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Sample(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda world: DescribeTransactionsRequest(transactional_ids=[OPEN]),
        grants=(Grant(DESCRIBE, TRANSACTION, OPEN), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, ErrorCode.NONE),
        shown=lambda response: response.transaction_states[0].topics,
        prepare=_open,
    ),
    Sample(
        ApiKey.LIST_TRANSACTIONS,
        lambda world: ListTransactionsRequest(),
        grants=(Grant(DESCRIBE, TRANSACTION, ID),),
        shown=lambda response: [state.transactional_id for state in response.transaction_states],
        prepare=_ready,
    ),
]
