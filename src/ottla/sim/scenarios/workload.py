"""Clients of a simulated broker that record the answers they get."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.errors import ClientError
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.header import batches
from ottla.records.reader import check_crc, read_records
from ottla.records.record import Record
from ottla.sim.history import PartitionHistory, Violation
from ottla.sim.runtime import SimRuntime
from ottla.sim.scenarios.topics import SimTopic

ACKS = (1, -1, -1, 0)
PADDING_BYTES = (0, 10, 10, 300, 5000)
IN_FLIGHT_MAX = 5


class Refused(Violation):
    """The broker refused, though nothing was wrong with it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


async def create_topic(connection: Connection, topic: SimTopic) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=len(topic.partitions),
                replication_factor=1,
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
            )
        ]
    )
    answer = (await connection.request(request)).topics[0]
    # A creation that was under way at a crash may have succeeded, so the topic may exist already.
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise Violation(f"{topic.name} cannot be created: {answer.error_code} {answer}")
    topic.topic_id = await topic_id(connection, topic.name)


async def topic_id(connection: Connection, name: str) -> bytes:
    from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    answer = (await connection.request(request)).topics[0]
    if answer.error_code:
        raise Violation(f"{name} was created and is gone: {ErrorCode.of(answer.error_code).name}")
    found: bytes = answer.topic_id
    return found


@dataclass
class Ledger:
    """State that all clients of one life of the broker share."""

    acknowledged: int = 0
    refusals_allowed: bool = False
    """Set when the broker is told to stop: from then on it may refuse requests."""
    disk_broken: bool = False
    """Set when one of its disks fails: from then on it may refuse requests for that reason."""

    def may_refuse(self, code: int) -> bool:
        storage_error = code == ErrorCode.KAFKA_STORAGE_ERROR
        return self.refusals_allowed or (self.disk_broken and storage_error)


class Writer:
    """A producer. Every record has a unique name and is sent once, so nothing repeats."""

    def __init__(
        self, runtime: SimRuntime, name: str, topics: Sequence[SimTopic], ledger: Ledger
    ) -> None:
        self._chance = runtime.random
        self._clock = runtime.clock
        self._ledger = ledger
        self._name = name
        self._topics = topics
        self._count = 0
        self._pause_s = self._chance.choice((0.0005, 0.005, 0.05))
        self._slots = asyncio.Semaphore(self._chance.randint(1, IN_FLIGHT_MAX))

    async def run(self, connection: Connection) -> None:
        """Produce until the connection ends or the task is cancelled."""
        async with asyncio.TaskGroup() as answers:
            while connection.failure is None:
                await self._slots.acquire()
                answers.create_task(self._produce(connection))
                await asyncio.sleep(self._chance.expovariate(1.0) * self._pause_s)

    async def _produce(self, connection: Connection) -> None:
        try:
            topic = self._chance.choice(self._topics)
            index = self._chance.randrange(len(topic.partitions))
            acks = self._chance.choice(ACKS)
            records = self._records(topic.partitions[index])
            request = self._request(topic, index, acks, records)
            if acks == 0:
                connection.post_unanswered(request)
                return
            answer = await connection.post(request)
            self._answered(topic.partitions[index], records, answer)
        except ClientError:
            pass  # it is unknown whether it was written: the history allows both
        finally:
            self._slots.release()

    def _records(self, history: PartitionHistory) -> list[str]:
        names = []
        for _ in range(self._chance.randint(1, 4)):
            self._count += 1
            names.append(f"{self._name}/{self._count}")
            history.sending(names[-1])
        return names

    def _request(
        self, topic: SimTopic, index: int, acks: int, names: Sequence[str]
    ) -> ProduceRequest:
        now_ms = self._clock.wall_ms()
        records = [
            Record(at, now_ms, name.encode(), self._padding(), ()) for at, name in enumerate(names)
        ]
        codec = self._chance.choice((Codec.NONE, Codec.NONE, *Codec))
        data = PartitionProduceData(index=index, records=build_batch(records, codec=codec))
        return ProduceRequest(
            acks=acks,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
            ],
        )

    def _padding(self) -> bytes:
        return self._chance.randbytes(self._chance.choice(PADDING_BYTES))

    def _answered(self, history: PartitionHistory, records: Sequence[str], answer: Any) -> None:
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.NONE:
            self._ledger.acknowledged += len(records)
            history.acknowledged(result.base_offset, records)
        elif not self._ledger.may_refuse(result.error_code):
            raise Violation(
                f"{history.name}: a healthy broker refused records: "
                f"{ErrorCode.of(result.error_code).name} {result.error_message}"
            )


class Reader:
    """A consumer: reads anywhere and checks what it sees against what others were told."""

    def __init__(
        self, runtime: SimRuntime, name: str, topics: Sequence[SimTopic], ledger: Ledger
    ) -> None:
        self._chance = runtime.random
        self._topics = topics
        self._ledger = ledger

    async def run(self, connection: Connection) -> None:
        topic = self._chance.choice(self._topics)
        index = self._chance.randrange(len(topic.partitions))
        position = 0
        while connection.failure is None:
            try:
                fetched = await fetch(
                    connection,
                    topic,
                    index,
                    position,
                    bytes_max=self._chance.choice((1, 1000, 100_000)),
                    wait_ms=self._chance.choice((0, 10, 500)),
                    min_bytes=self._chance.choice((0, 1, 2000)),
                )
            except ClientError:
                return
            except Refused as refused:
                if self._ledger.may_refuse(refused.code):
                    await asyncio.sleep(0.05)
                    return
                raise
            for offset, name in fetched:
                topic.partitions[index].read(offset, name)
                position = offset + 1
            await asyncio.sleep(self._chance.random() * 0.02)


async def fetch(
    connection: Connection,
    topic: SimTopic,
    index: int,
    position: int,
    *,
    bytes_max: int = 100_000,
    wait_ms: int = 0,
    min_bytes: int = 0,
) -> list[tuple[int, str]]:
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=bytes_max,
        topics=[
            FetchTopic(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    FetchPartition(
                        partition=index, fetch_offset=position, partition_max_bytes=bytes_max
                    )
                ],
            )
        ],
    )
    response = await connection.request(request)
    partition = response.responses[0].partitions[0]
    if response.error_code or partition.error_code:
        code = ErrorCode.of(response.error_code or partition.error_code)
        raise Refused(f"{topic.name}-{index} cannot be read at {position}: {code.name}", code)
    return _names(partition.records, position)


def _names(data: Any, position: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for header, batch in batches(data or b""):
        check_crc(header, batch)
        found += [(r.offset, (r.key or b"?").decode()) for r in read_records(batch)]
    return [(offset, name) for offset, name in found if offset >= position]


async def read_all(connection: Connection, topic: SimTopic, index: int) -> list[tuple[int, str]]:
    """Read the whole partition as a consumer that starts at 0 sees it."""
    log: list[tuple[int, str]] = []
    position = 0
    while found := await fetch(connection, topic, index, position):
        log += found
        position = found[-1][0] + 1
    return log
