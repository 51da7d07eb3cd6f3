"""Finds the timestamp of the first record at or after an offset, from which lag in time follows.

No request returns it, so the batch with the offset is fetched and opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.buffers import Buffer
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import Answers, ask_leaders
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.errors import InvalidBatch
from ottla.records.header import NO_TIMESTAMP, batches
from ottla.records.reader import check_crc, iter_records
from ottla.records.record import Record

FIRST_PARTITION_BYTES = 16 << 10
"""Enough for the usual batch. A broker sends a larger batch whole for only one partition of a
request, so that every request makes progress, and leaves out those of the other partitions."""
PARTITION_BYTES_MAX = 1 << 20
RESPONSE_BYTES_MAX = 32 << 20
PARTITIONS_A_REQUEST_MAX = 256


class _Search:
    """A search in one partition for the first record in [`position`, `end`)."""

    __slots__ = ("end", "found", "over", "position")

    def __init__(self, position: int, end: int) -> None:
        self.position = position
        self.end = end
        self.found: int | None = None
        self.over = position >= end

    def look(self, data: Buffer) -> None:
        """Search fetched batches. Transaction markers and compacted offsets are skipped."""
        for header, batch in batches(data):
            check_crc(header, batch)
            record = None if header.is_control else self._first(batch)
            if record is not None:
                self.found = record.timestamp if record.offset < self.end else None
                self.over = True
                return
            self.position = max(self.position, header.next_offset)
        self.over = self.position >= self.end

    def _first(self, batch: Buffer) -> Record | None:
        return next((one for one in iter_records(batch) if one.offset >= self.position), None)


async def first_record_times(
    cluster: Cluster, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Answers[int | None]:
    """Return the timestamp in ms of the first record with an offset in [first, before) of each
    partition: None if there is no such record, -1 if its timestamp is unknown."""
    searches = {one: _Search(*offsets) for one, offsets in ranges.items()}

    async def ask(node_id: int, own: list[TopicPartition]) -> Answers[int | None]:
        answers: Answers[int | None] = {}
        partition_bytes = FIRST_PARTITION_BYTES
        while open_ := [one for one in own if one not in answers and not searches[one].over]:
            asked = {one: searches[one] for one in open_[:PARTITIONS_A_REQUEST_MAX]}
            before = [search.position for search in asked.values()]
            for one, error in (await _fetch(cluster, node_id, asked, partition_bytes)).items():
                answers[one] = error
            if before == [search.position for search in asked.values()] and not any(
                search.over or one in answers for one, search in asked.items()
            ):
                # The broker sent nothing although records existed: they have been deleted
                # meanwhile.
                answers |= dict.fromkeys(asked, NO_TIMESTAMP)
            partition_bytes = min(partition_bytes * 4, PARTITION_BYTES_MAX)
        return {one: answers.get(one, searches[one].found) for one in own}

    return await ask_leaders(cluster, searches, ask)


async def _fetch(
    cluster: Cluster,
    node_id: int,
    asked: Mapping[TopicPartition, _Search],
    partition_bytes: int,
) -> dict[TopicPartition, KafkaError]:
    """Search the fetched records of each partition, and return the errors of those that failed."""
    connection = await cluster.broker(node_id)
    response = await connection.request(_request(cluster, asked, partition_bytes))
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    names = {cluster.topic_id(one.topic): one.topic for one in asked}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.responses:
        for partition in topic.partitions:
            name = topic.topic or names[topic.topic_id]
            one = TopicPartition(name, partition.partition_index)
            if code := ErrorCode.of(partition.error_code):
                errors[one] = KafkaError(code, f"{one}: {code.message}")
            else:
                try:
                    asked[one].look(partition.records or b"")
                except InvalidBatch as error:
                    errors[one] = KafkaError(error.code, f"{one}: {error.message}")
    return errors


def _request(
    cluster: Cluster, asked: Mapping[TopicPartition, _Search], partition_bytes: int
) -> Any:
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topics: dict[str, FetchTopic] = {}
    for one, search in asked.items():
        topic = topics.get(one.topic)
        if topic is None:
            topic = topics[one.topic] = FetchTopic(
                topic=one.topic, topic_id=cluster.topic_id(one.topic), partitions=[]
            )
        topic.partitions.append(
            FetchPartition(
                partition=one.partition,
                fetch_offset=search.position,
                partition_max_bytes=partition_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=RESPONSE_BYTES_MAX, topics=list(topics.values())
    )
