"""Two brokers with one partition that change leaders, histories and their minds as a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from scripted_broker import ScriptedBroker, negotiating

from ottla.client.values import TopicPartition
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.schema import Message
from ottla.records.builder import build_batch
from ottla.records.header import batches
from ottla.records.record import Record

TOPIC = "scripted"
PARTITION = TopicPartition(TOPIC, 0)
TOPIC_ID = bytes(range(16))
LONG_POLL_S = 0.05


class Fetched(NamedTuple):
    node_id: int
    version: int
    request: FetchRequest

    @property
    def offset(self) -> int:
        return self.request.topics[0].partitions[0].fetch_offset


class ScriptedPartition:
    def __init__(self) -> None:
        self.leader = 1
        self.epoch = 0
        self.log = b""
        self.end = 0
        self.preferred = -1
        """The follower that the leader sends readers to."""
        self.epoch_end = (0, 1 << 40)
        """What is said about any epoch: (epoch, end offset)."""
        self.errors: dict[int, deque[int | PartitionData]] = {1: deque(), 2: deque()}
        """Of a node: what becomes of its next fetches instead of records."""
        self.offset_errors: deque[int] = deque()
        """What becomes of the next questions for an offset."""
        self.top_errors: deque[int] = deque()
        self.session_id = 0
        self.remembered = 0
        """The offset that the session asks for."""
        self.throttle_ms = 0
        self.long_poll_s = LONG_POLL_S
        self.fetches: list[Fetched] = []
        self.asked: list[tuple[int, int]] = []
        """(node id, API key) of every other request."""
        self.addresses: dict[int, tuple[str, int]] = {}
        self.brokers: dict[int, ScriptedBroker] = {}

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.addresses[1])

    def append(self, *values: bytes, damaged: bool = False) -> None:
        records = [Record(self.end + i, 5, None, value) for i, value in enumerate(values)]
        batch = bytearray(build_batch(records, partition_leader_epoch=self.epoch))
        if damaged:
            batch[-2] ^= 1
        self.log += bytes(batch)
        self.end += len(values)

    def endpoints(self) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in self.addresses.items()
        ]

    @asynccontextmanager
    async def running(
        self, versions: dict[int, tuple[int, int]] | None = None
    ) -> AsyncIterator[ScriptedPartition]:
        known = {key: api.versions for key, api in APIS.items()} | (versions or {})
        async with AsyncExitStack() as stack:
            for node_id in (1, 2):
                self.brokers[node_id] = ScriptedBroker(negotiating(self._answer_as(node_id)), known)
                self.addresses[node_id] = await stack.enter_async_context(self.brokers[node_id])
            yield self

    def _answer_as(self, node_id: int) -> Any:
        async def answer(
            broker: ScriptedBroker,
            header: RequestHeader,
            request: Any,
            writer: asyncio.StreamWriter,
        ) -> None:
            if header.api_key == ApiKey.FETCH:
                self.fetches.append(Fetched(node_id, header.api_version, request))
                response: Message = await self._fetch(node_id, header, request)
            else:
                self.asked.append((node_id, header.api_key))
                response = {
                    ApiKey.METADATA: self._metadata,
                    ApiKey.LIST_OFFSETS: self._list_offsets,
                    ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_end,
                }[ApiKey(header.api_key)](request)
            broker.send(writer, header, response)

        return answer

    def _metadata(self, _request: Any) -> MetadataResponse:
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

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        at = request.topics[0].partitions[0].timestamp
        error = self.offset_errors.popleft() if self.offset_errors else 0
        found = ListOffsetsPartitionResponse(
            partition_index=0, error_code=error, offset=0 if at == -2 else self.end
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])]
        )

    def _epoch_end(self, _request: Any) -> OffsetForLeaderEpochResponse:
        epoch, offset = self.epoch_end
        found = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=offset)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=[found])]
        )

    async def _fetch(
        self, node_id: int, header: RequestHeader, request: FetchRequest
    ) -> FetchResponse:
        if self.top_errors:
            return FetchResponse(error_code=self.top_errors.popleft())
        answer = await self._answer(node_id, request)
        topic = FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[answer])
        response = FetchResponse(
            throttle_time_ms=self.throttle_ms,
            responses=[topic] if request.topics or answer.records else [],
        )
        if header.api_version >= 7:
            response.session_id = self.session_id
        if header.api_version >= 16:
            response.node_endpoints = self.endpoints()
        return response

    async def _answer(self, node_id: int, request: FetchRequest) -> PartitionData:
        if self.errors[node_id]:
            return self._next_error(node_id)
        answer = PartitionData(high_watermark=self.end, last_stable_offset=self.end, records=b"")
        if node_id == self.leader and self.preferred >= 0 and request.rack_id:
            answer.preferred_read_replica = self.preferred
        else:
            if request.topics:
                self.remembered = request.topics[0].partitions[0].fetch_offset
            answer.records = b"".join(
                bytes(batch)
                for header, batch in batches(self.log)
                if header.next_offset > self.remembered
            )
        if not answer.records and answer.preferred_read_replica < 0:
            await asyncio.sleep(self.long_poll_s)
            if self.errors[node_id]:
                return self._next_error(node_id)
        return answer

    def _next_error(self, node_id: int) -> PartitionData:
        error = self.errors[node_id].popleft()
        if isinstance(error, PartitionData):
            return error
        return PartitionData(error_code=error, high_watermark=-1)

    def hint(self, code: int, leader: int, epoch: int) -> PartitionData:
        """An error that names the leader (KIP-951)."""
        current = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        return PartitionData(error_code=code, high_watermark=-1, current_leader=current)
