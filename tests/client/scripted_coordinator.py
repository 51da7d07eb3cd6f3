"""A coordinator of transactions that answers as a test tells it, and a producer without records."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from scripted_broker import ScriptedBroker

from ottla.client.network.cluster import Cluster
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.settings.base import settings_from
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.api_versions import FinalizedFeatureKey
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.runtime.os_runtime import OsRuntime, run

SILENCE = "silence"
"""Nothing is answered any more on this connection."""
HANG_UP = "hang up"
Reply = ErrorCode | str
"""What becomes of a request: an error code in its answer, or one of the above."""

NODE = 1


class Asked(NamedTuple):
    api_key: int
    version: int
    request: Any


class ScriptedCoordinator:
    """Says yes to everything, unless `script[api_key]` has something else for the next request."""

    def __init__(self, protocol: int = 2) -> None:
        self.script: dict[int, deque[Reply]] = defaultdict(deque)
        self.asked: list[Asked] = []
        self.epoch = -1
        self._protocol = protocol
        self._broker = ScriptedBroker(self._answer)
        self._address = ("", 0)

    def will(self, api_key: ApiKey, *replies: Reply) -> None:
        self.script[api_key] += replies

    def requests(self, api_key: ApiKey) -> list[Asked]:
        return [one for one in self.asked if one.api_key == api_key]

    async def __aenter__(self) -> str:
        self._address = await self._broker.__aenter__()
        return f"{self._address[0]}:{self._address[1]}"

    async def __aexit__(self, *_: object) -> None:
        await self._broker.__aexit__()

    async def _answer(
        self,
        broker: ScriptedBroker,
        header: RequestHeader,
        request: Any,
        writer: asyncio.StreamWriter,
    ) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            versions = broker.versions_response()
            versions.finalized_features = [
                FinalizedFeatureKey(
                    name="transaction.version",
                    max_version_level=self._protocol,
                    min_version_level=self._protocol,
                )
            ]
            broker.send(writer, header, versions)
            return
        self.asked.append(Asked(header.api_key, header.api_version, request))
        script = self.script[header.api_key]
        reply = script.popleft() if script else ErrorCode.NONE
        if reply == HANG_UP:
            raise ConnectionError
        if reply == SILENCE:
            await asyncio.Event().wait()
        assert isinstance(reply, ErrorCode)
        answer = _ANSWERS[ApiKey(header.api_key)](self, header.api_version, request, reply)
        broker.send(writer, header, answer)

    # One for each API

    def _metadata(self, version: int, request: Any, code: ErrorCode) -> Any:
        host, port = self._address
        broker = MetadataResponseBroker(node_id=NODE, host=host, port=port)
        return MetadataResponse(brokers=[broker], controller_id=NODE, topics=[])

    def _find(self, version: int, request: Any, code: ErrorCode) -> Any:
        host, port = self._address
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=NODE, host=host, port=port, error_code=int(code))
                for key in request.coordinator_keys
            ]
        )

    def _init(self, version: int, request: Any, code: ErrorCode) -> Any:
        if code:
            return InitProducerIdResponse(error_code=int(code))
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def _end(self, version: int, request: Any, code: ErrorCode) -> Any:
        if code:
            return EndTxnResponse(error_code=int(code))
        if version < 5:
            return EndTxnResponse()
        self.epoch = request.producer_epoch + 1
        return EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def _add_partitions(self, version: int, request: Any, code: ErrorCode) -> Any:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=int(code)
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _add_offsets(self, version: int, request: Any, code: ErrorCode) -> Any:
        return AddOffsetsToTxnResponse(error_code=int(code))

    def _commit_offsets(self, version: int, request: Any, code: ErrorCode) -> Any:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=one.partition_index, error_code=int(code)
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


_ANSWERS: dict[ApiKey, Callable[..., Any]] = {
    ApiKey.METADATA: ScriptedCoordinator._metadata,
    ApiKey.FIND_COORDINATOR: ScriptedCoordinator._find,
    ApiKey.INIT_PRODUCER_ID: ScriptedCoordinator._init,
    ApiKey.END_TXN: ScriptedCoordinator._end,
    ApiKey.ADD_PARTITIONS_TO_TXN: ScriptedCoordinator._add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: ScriptedCoordinator._add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: ScriptedCoordinator._commit_offsets,
}


class EmptyOutbox:
    """A producer that never has records; notes what it is told."""

    def __init__(self) -> None:
        self.dropped: list[Exception] = []
        self.leaves_hole = False
        self.times_forgotten = 0
        self.woken = asyncio.Event()
        self.flushing: Callable[[], Awaitable[None]] | None = None

    async def flush(self) -> None:
        if self.flushing is not None:
            await self.flushing()

    def drop_unsent(self, error: Exception) -> bool:
        self.dropped.append(error)
        return self.leaves_hole

    async def drained(self) -> None:
        return

    def forget_sequences(self, partition: TopicPartition | None = None) -> None:
        self.times_forgotten += 1

    def wake(self) -> None:
        self.woken.set()


class Stage(NamedTuple):
    coordinator: ScriptedCoordinator
    manager: TransactionManager
    outbox: EmptyOutbox

    async def admitted(self, partition: TopicPartition) -> bool:
        """Ask as a sender does, until the answer stays."""
        for _ in range(20):
            self.outbox.woken.clear()
            if self.manager.keeper.admits(partition):
                return True
            for _ in range(50):  # ten seconds, on a machine that is busy with something else
                if self.outbox.dropped:
                    return False
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.outbox.woken.wait(), 0.2)
                    break
        return False


@asynccontextmanager
async def staged(
    runtime: OsRuntime, protocol: int, options: dict[str, Any]
) -> AsyncIterator[Stage]:
    coordinator = ScriptedCoordinator(protocol)
    async with coordinator as address:
        given = {"transactional_id": "tx", "retry_backoff_ms": 5, "max_block_ms": 5_000, **options}
        settings = settings_from(ProducerSettings, {"bootstrap_servers": address, **given})
        async with Cluster.of(settings, runtime) as cluster:
            outbox = EmptyOutbox()
            yield Stage(coordinator, TransactionManager(cluster, settings, outbox), outbox)


def on_stage(
    play: Callable[[Stage], Awaitable[None]], *, protocol: int = 2, **options: Any
) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with staged(runtime, protocol, options) as stage:
            await play(stage)

    run(main)
