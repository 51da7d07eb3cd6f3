"""Two brokers that lead one partition in turn, and answer batches as a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from scripted_broker import ScriptedBroker, negotiating

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.header import BatchHeader, read_header
from ottla.records.reader import read_records

TOPIC = "scripted"
TOPIC_ID = bytes(range(16))


class Produced(NamedTuple):
    """A batch that came, and where."""

    node_id: int
    header: BatchHeader
    values: list[bytes | None]

    @property
    def numbers(self) -> tuple[int, int]:
        return self.header.producer_epoch, self.header.base_sequence


Answer = PartitionProduceResponse | int | None
"""The whole answer, an error code, or None: hang up."""


class ScriptedLeaders:
    def __init__(self) -> None:
        self.leader = 1
        self.epoch = 0
        self.answers: deque[Answer] = deque()
        """For the next batches; then the leader takes all."""
        self.id_errors: deque[int] = deque()
        self.produced: list[Produced] = []
        self.taken: list[bytes | None] = []
        self.refreshes = 0
        self.addresses: dict[int, tuple[str, int]] = {}
        self.throttle_ms = 0
        self.is_silent = False
        """Whether it takes batches and answers nothing."""

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.addresses[1])

    @asynccontextmanager
    async def running(
        self, versions: dict[int, tuple[int, int]] | None = None
    ) -> AsyncIterator[ScriptedLeaders]:
        known = {key: api.versions for key, api in APIS.items()} | (versions or {})
        async with AsyncExitStack() as stack:
            for node_id in (1, 2):
                broker = ScriptedBroker(negotiating(self._answer_as(node_id)), known)
                self.addresses[node_id] = await stack.enter_async_context(broker)
            yield self

    def _answer_as(self, node_id: int) -> Any:
        async def answer(
            broker: ScriptedBroker,
            header: RequestHeader,
            request: Any,
            writer: asyncio.StreamWriter,
        ) -> None:
            if header.api_key == ApiKey.METADATA:
                self.refreshes += 1
                broker.send(writer, header, self._metadata())
            elif header.api_key == ApiKey.INIT_PRODUCER_ID:
                code = self.id_errors.popleft() if self.id_errors else 0
                response = InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=0)
                broker.send(writer, header, response)
            else:
                await self._produce(node_id, broker, header, request, writer)

        return answer

    async def _produce(
        self,
        node_id: int,
        broker: ScriptedBroker,
        header: RequestHeader,
        request: Any,
        writer: asyncio.StreamWriter,
    ) -> None:
        data = bytes(request.topic_data[0].partition_data[0].records)
        values = [record.value for record in read_records(data)]
        self.produced.append(Produced(node_id, read_header(data), values))
        unscripted = 0 if node_id == self.leader else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        answer = self.answers.popleft() if self.answers else unscripted
        if answer is None:
            writer.close()
            return
        if isinstance(answer, int):
            answer = PartitionProduceResponse(index=0, error_code=answer, base_offset=-1)
        if not answer.error_code:
            answer.base_offset = len(self.taken)
            self.taken += values
        topic = TopicProduceResponse(name=TOPIC, topic_id=TOPIC_ID, partition_responses=[answer])
        response = ProduceResponse(
            responses=[topic],
            node_endpoints=self._endpoints() if header.api_version >= 10 else [],
            throttle_time_ms=self.throttle_ms,
        )
        if self.is_silent:
            return
        broker.send(writer, header, response)

    def _endpoints(self) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in self.addresses.items()
        ]

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=self.leader,
            leader_epoch=self.epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
            offline_replicas=[],
        )
        topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        brokers = [
            MetadataResponseBroker(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in self.addresses.items()
        ]
        return MetadataResponse(brokers=brokers, controller_id=1, topics=[topic])


def led_by(node_id: int, epoch: int, code: int) -> PartitionProduceResponse:
    """A refusal that names the new leader (KIP-951)."""
    return PartitionProduceResponse(
        index=0,
        error_code=code,
        base_offset=-1,
        current_leader=LeaderIdAndEpoch(leader_id=node_id, leader_epoch=epoch),
    )


def with_record_errors(code: int, **messages: str) -> PartitionProduceResponse:
    """A refusal that names single records, as `at_3="why"`."""
    return PartitionProduceResponse(
        index=0,
        error_code=code,
        base_offset=-1,
        error_message="some records are bad",
        record_errors=[
            BatchIndexAndErrorMessage(
                batch_index=int(place.removeprefix("at_")), batch_index_error_message=message
            )
            for place, message in messages.items()
        ],
    )
