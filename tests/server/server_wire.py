"""A transactional producer that can be made to misbehave."""

from __future__ import annotations

import time
from typing import Any

from broker_wire import Wire, until_served
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

PROTOCOL_2 = 12
"""The first version of Produce that adds partitions to transactions by itself."""
PROTOCOL_1 = 11


def create_topic(wire: Wire, name: str, partitions: int = 1) -> bytes:
    """The id of a new topic, once its partitions have leaders."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (created,) = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert created.error_code == 0, created
    wanted = ListOffsetsTopic(
        name=name,
        partitions=[ListOffsetsPartition(partition_index=at) for at in range(partitions)],
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
    until_served(
        lambda: wire.ask(request, 7),
        lambda answer: max(int(found.error_code) for found in answer.topics[0].partitions),
    )
    return bytes(created.topic_id)


def batch_of(
    producer_id: int,
    epoch: int,
    sequence: int,
    *values: bytes,
    transactional: bool = False,
) -> bytes:
    now_ms = int(time.time() * 1000)
    return build_batch(
        [Record(at, now_ms, None, value) for at, value in enumerate(values or (b"value",))],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def produce_request(
    topic: str | bytes,
    batches: dict[int, bytes],
    *,
    transactional_id: str | None = None,
    acks: int = -1,
) -> ProduceRequest:
    place = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                partition_data=[
                    PartitionProduceData(index=index, records=batch)
                    for index, batch in batches.items()
                ],
                **place,
            )
        ],
    )


def produce(
    wire: Wire, topic: str | bytes, batch: bytes, version: int = PROTOCOL_1, **fields: Any
) -> PartitionProduceResponse:
    request = produce_request(topic, {0: batch}, **fields)
    answer: PartitionProduceResponse = (
        wire.ask(request, version).responses[0].partition_responses[0]
    )
    return answer


class Transactor:
    """A transactional producer of one partition that does what it is told."""

    def __init__(self, wire: Wire, transactional_id: str, topic: str, version: int) -> None:
        self.wire = wire
        self.id = transactional_id
        self.topic = topic
        self.version = version
        self.sequence = 0
        self.begin()

    def begin(self) -> None:
        """InitProducerId."""
        until_served(
            lambda: self.wire.ask(
                FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id]), 4
            ),
            lambda answer: int(answer.coordinators[0].error_code),
        )
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        answer = until_served(
            lambda: self.wire.ask(request, 4), lambda answer: int(answer.error_code)
        )
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def add_partition(self) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[0])],
        )

        def error_of(answer: Any) -> int:
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            return int(result.partition_error_code)

        return error_of(until_served(lambda: self.wire.ask(request, 3), error_of))

    def batch(self, *values: bytes) -> bytes:
        batch = batch_of(self.producer_id, self.epoch, self.sequence, *values, transactional=True)
        self.sequence += len(values) or 1
        return batch

    def send(self, *values: bytes, version: int | None = None) -> PartitionProduceResponse:
        return produce(
            self.wire,
            self.topic,
            self.batch(*values),
            self.version if version is None else version,
            transactional_id=self.id,
        )

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = 5 if self.version >= PROTOCOL_2 else 4
        answer = until_served(
            lambda: self.wire.ask(request, version), lambda answer: int(answer.error_code)
        )
        if answer.error_code == 0 and version == 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return int(answer.error_code)
