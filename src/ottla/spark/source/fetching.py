"""Fetches records of one partition from an offset on, from its present leader.

One request at a time, without a fetch session: ranges are short, and each would need a session.
Temporary errors are retried until the time is up:

    leader moved, replica away, no connection   ask for metadata, then again after a pause
    topic or partition gone                     the same, but not for long: a broker that has
                                                just started may not know it yet
    offset out of range, another topic of the same name, damage      raised at once
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.buffers import Buffer
from ottla.client.errors import ClientError, TopicMissing
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Broker, Topic
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.uuids import ZERO_UUID

TOPIC_IDS_FROM = 13
UNKNOWN = -1
GONE_PATIENCE_MS = 3_000
"""How long to wait for a topic that cannot be found."""

GONE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
PASSING = {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class Asked:
    partition: TopicPartition
    offset: int
    bytes_max: int
    topic_id: bytes = ZERO_UUID
    """The id of the topic; ZERO_UUID matches any topic of that name."""


@dataclass(frozen=True, slots=True)
class Answer:
    records: Buffer
    aborted: list[tuple[int, int]]
    end: int
    """The end of what can be read: with read_committed, the last stable offset."""


class OutOfRange(Exception):
    """The partition does not have the offset: retention removed it, or the log is shorter now."""


class TopicGone(Exception):
    """The topic was deleted; there may be another one with the same name."""


class Fetching:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._preferred: dict[TopicPartition, int] = {}
        """Followers that leaders told the client to read from (KIP-392)."""

    async def fetch(self, asked: Asked, within_s: float) -> Answer:
        """Return records, or none if the broker has none; raise the last error when time is up."""
        within_ms = int(within_s * 1000)
        backoff = self._cluster.backoff(within_ms)
        until_gone = self._cluster.backoff(min(within_ms, GONE_PATIENCE_MS))
        while True:
            try:
                return await self._attempt(asked)
            except (ClientError, KafkaError) as error:
                self._preferred.pop(asked.partition, None)
                if _is_gone(error):
                    if not await until_gone.pause():
                        raise TopicGone from error
                elif not _may_pass(error) or not await backoff.pause():
                    raise
            await self._look_again(asked)

    async def _look_again(self, asked: Asked) -> None:
        try:
            await self._cluster.refresh([asked.partition.topic])
        except (ClientError, KafkaError):
            pass  # the next attempt raises it

    async def _attempt(self, asked: Asked) -> Answer:
        topic_id, leader, epoch = await self._leader(asked)
        for _ in range(2):  # a second time, if the leader names a follower to read from
            node_id = self._preferred.get(asked.partition, leader)
            connection = await self._cluster.broker_for_fetching(node_id)
            response = await self._ask(connection, asked, topic_id, epoch)
            found = [one for topic in response.responses for one in topic.partitions]
            if not found:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            answer = self._read(asked, found[0], response.node_endpoints, node_id)
            if answer is not None:
                return answer
        raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)

    async def _leader(self, asked: Asked) -> tuple[bytes, int, int]:
        """Return the topic's id, the partition's leader, and the leader epoch."""
        name, index = asked.partition
        topic = self._cluster.view.topics.get(name)
        if topic is None or not _is_meant(asked, topic):
            await self._cluster.refresh([name])
            topic = self._cluster.view.topics.get(name)
        if topic is None or index >= len(topic.partitions):
            raise TopicMissing(name, index if topic is not None and topic.partitions else None)
        if not _is_meant(asked, topic):
            raise TopicGone
        partition = topic.partitions[index]
        if partition.leader not in self._cluster.view.brokers:
            code = ErrorCode.LEADER_NOT_AVAILABLE
            raise KafkaError(code, f"{asked.partition} has no leader now")
        return topic.topic_id, partition.leader, partition.leader_epoch

    async def _ask(
        self, connection: Connection, asked: Asked, topic_id: bytes, leader_epoch: int
    ) -> Any:
        settings = self._settings
        wanted = FetchPartition(
            partition=asked.partition.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=asked.offset,
            partition_max_bytes=asked.bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=1,  # everything requested is there already
            max_bytes=max(asked.bytes_max, settings.fetch_max_bytes),
            isolation_level=int(settings.is_read_committed),
            rack_id=settings.client_rack,
            topics=[
                FetchTopic(topic=asked.partition.topic, topic_id=topic_id, partitions=[wanted])
            ],
        )
        version = connection.version_of(request)
        if topic_id == ZERO_UUID:
            version = min(version, TOPIC_IDS_FROM - 1)
        timeout_ms = settings.request_timeout_ms + settings.fetch_max_wait_ms
        return await connection.request(request, version=version, timeout_ms=timeout_ms)

    def _read(self, asked: Asked, found: Any, endpoints: list[Any], node_id: int) -> Answer | None:
        """Return the answer; None: ask a follower instead."""
        code = ErrorCode.of(found.error_code)
        if code is ErrorCode.NONE:
            if found.preferred_read_replica >= 0 and not found.records:
                self._preferred[asked.partition] = found.preferred_read_replica
                return None
            committed = self._settings.is_read_committed
            end = found.last_stable_offset if committed else found.high_watermark
            return Answer(found.records or b"", _aborted(found), end)
        is_follower = self._preferred.pop(asked.partition, UNKNOWN) == node_id
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and not is_follower:
            raise OutOfRange
        leader = found.current_leader
        if leader.leader_id >= 0:
            brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in endpoints]
            self._cluster.metadata.leader_changed(
                asked.partition, leader.leader_id, leader.leader_epoch, brokers
            )
        raise KafkaError(code, f"{asked.partition} at offset {asked.offset}: {code.message}")


def _is_meant(asked: Asked, topic: Topic) -> bool:
    return ZERO_UUID in (asked.topic_id, topic.topic_id) or asked.topic_id == topic.topic_id


def _is_gone(error: ClientError | KafkaError) -> bool:
    if isinstance(error, KafkaError):
        return error.code in GONE
    return isinstance(error, TopicMissing)


def _may_pass(error: ClientError | KafkaError) -> bool:
    if isinstance(error, KafkaError):
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            return False
        return error.code.retriable or error.code in PASSING
    return may_pass(error)


def _aborted(answer: Any) -> list[tuple[int, int]]:
    return [(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()]
