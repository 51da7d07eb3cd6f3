"""Reading partitions from given offsets on: a long poll to each leader, no group, no commits.

While a response is being worked on, the next one is already under way; so at most two a broker are
in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.fetched import Fetched
from ottla.client.network.backoff import Backoff, may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 << 20
    partition_bytes_max: int = 1 << 20
    isolation: int = READ_UNCOMMITTED
    follow_truncation: bool = True
    """Go on at the log's start when retention has removed the offset that is next."""


class TopicReader:
    """Iterate over `fetches()`; with `ends` it stops when each partition has reached its own."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        positions: Mapping[int, int],
        *,
        ends: Mapping[int, int] | None = None,
        settings: ReaderSettings | None = None,
    ) -> None:
        self._cluster = cluster
        self.topic = topic
        self._settings = settings or ReaderSettings()
        self._ends = ends
        self.positions = {
            index: offset for index, offset in positions.items() if not self._at_end(index, offset)
        }
        self._under_way: dict[int, asyncio.Task[list[Fetched]]] = {}
        self._backoff = Backoff(cluster.runtime, cluster.retry_within_ms)

    def _at_end(self, index: int, offset: int) -> bool:
        return self._ends is not None and offset >= self._ends[index]

    def end_of(self, index: int) -> int | None:
        """Records from this offset on are beyond the end; None if there is none."""
        return None if self._ends is None else self._ends[index]

    async def fetches(self) -> AsyncGenerator[Fetched, None]:
        try:
            await self._start_idle()
            while self._under_way:
                done, _ = await asyncio.wait(
                    self._under_way.values(), return_when=asyncio.FIRST_COMPLETED
                )
                arrived = await self._collect(done)
                await self._start_idle()
                for fetched in arrived:
                    yield fetched
        finally:
            for task in self._under_way.values():
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)
            self._under_way.clear()

    async def _collect(self, done: set[asyncio.Task[list[Fetched]]]) -> list[Fetched]:
        """The data of finished fetches; positions move on. Errors that may pass are waited out."""
        arrived: list[Fetched] = []
        failure: BaseException | None = None
        for node_id in [node for node, task in self._under_way.items() if task in done]:
            task = self._under_way.pop(node_id)
            if (error := task.exception()) is not None:
                failure = error
                continue
            for fetched in task.result():
                try:
                    await self._advance(fetched)
                    arrived.append(fetched)
                except KafkaError as problem:
                    failure = problem
        if failure is not None:
            await self._recover(failure)
        elif arrived:
            self._backoff = Backoff(self._cluster.runtime, self._cluster.retry_within_ms)
        return arrived

    async def _advance(self, fetched: Fetched) -> None:
        """Move on behind what was fetched."""
        index, code = fetched.partition, ErrorCode.of(fetched.error_code)
        if code == ErrorCode.NONE:
            position = fetched.next_offset()
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            position = await self._start_after(fetched)
        else:
            raise KafkaError(code, f"{self.topic}-{index}: {code.message}")
        self.positions[index] = position
        if self._at_end(index, position):
            del self.positions[index]

    async def _start_after(self, fetched: Fetched) -> int:
        """Where the log begins now, if retention has removed what was asked for."""
        index, position = fetched.partition, fetched.position
        one = TopicPartition(self.topic, index)
        found = await Admin.over(self._cluster).list_offsets({one: OffsetSpec.EARLIEST})
        start = all_or_raise(found)[one].offset
        if position < start and self._settings.follow_truncation:
            return start
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic}-{index} holds no offset {position}; see `ottla offsets {self.topic}`",
        )

    async def _recover(self, failure: BaseException) -> None:
        if not may_pass(failure) or not await self._backoff.pause():
            raise failure
        try:
            await self._cluster.topic(self.topic)
        except Exception as error:
            if not may_pass(error):
                raise

    async def _start_idle(self) -> None:
        """A fetch to each leader that has none under way."""
        groups = await self._cluster.by_leader(self.topic, list(self.positions))
        for node_id, partitions in groups.items():
            if node_id not in self._under_way:
                wanted = {index: self.positions[index] for index in partitions}
                self._under_way[node_id] = asyncio.create_task(self._fetch(node_id, wanted))

    async def _fetch(self, node_id: int, wanted: dict[int, int]) -> list[Fetched]:
        connection = await self._cluster.broker_for_fetching(node_id)
        timeout_ms = self._settings.wait_ms_max + self._cluster.request_timeout_ms
        response = await connection.request(self._request(wanted), timeout_ms=timeout_ms)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        return [
            _fetched(partition, wanted[partition.partition_index])
            for topic in response.responses
            for partition in topic.partitions
        ]

    def _request(self, wanted: dict[int, int]) -> FetchRequest:
        settings = self._settings
        return FetchRequest(
            max_wait_ms=settings.wait_ms_max,
            min_bytes=settings.bytes_min,
            max_bytes=settings.bytes_max,
            isolation_level=settings.isolation,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    topic_id=self._cluster.topic_id(self.topic),
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=settings.partition_bytes_max,
                        )
                        for index, offset in wanted.items()
                    ],
                )
            ],
        )


def _fetched(partition: Any, position: int) -> Fetched:
    return Fetched(
        partition=partition.partition_index,
        position=position,
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        aborted=[
            (aborted.first_offset, aborted.producer_id)
            for aborted in partition.aborted_transactions or ()
        ],
        data=partition.records,
    )
