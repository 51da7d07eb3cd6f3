"""Asks leaders where an epoch ends in their log, to see whether they hold what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.client.consumer.partition_state import UNKNOWN
from ottla.client.errors import UnsupportedVersion
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import Answers, ask_known_leaders
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


class EpochEnd(NamedTuple):
    """The leader's log agrees with the requested epoch up to `offset`."""

    epoch: int
    offset: int
    current_leader_epoch: int

    @property
    def is_unknown(self) -> bool:
        return self.epoch == UNKNOWN or self.offset == UNKNOWN

    def covers(self, position: int) -> bool:
        return not self.is_unknown and position <= self.offset


async def epoch_ends(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> Answers[EpochEnd]:
    """Return the end of each partition's epoch in its leader's log.

    Raises `UnsupportedVersion` if a broker does not support the request.
    """
    unsupported: list[UnsupportedVersion] = []

    async def ask(node_id: int, own: list[TopicPartition]) -> Answers[EpochEnd]:
        connection = await cluster.broker(node_id)
        asked = {one: (epochs[one], _leader_epoch(cluster, one)) for one in own}
        try:
            response = await connection.request(_request(asked))
        except UnsupportedVersion as error:
            unsupported.append(error)
            return {}
        return {
            (one := TopicPartition(topic.topic, found.partition)): _end(one, found, asked[one][1])
            for topic in response.topics
            for found in topic.partitions
        }

    answers = await ask_known_leaders(cluster, epochs, ask)
    if unsupported:
        raise unsupported[0]
    return answers


def _leader_epoch(cluster: Cluster, one: TopicPartition) -> int:
    return cluster.view.topics[one.topic].partitions[one.partition].leader_epoch


def _request(asked: Mapping[TopicPartition, tuple[int, int]]) -> Any:
    from ottla.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, index), (epoch, leader_epoch) in asked.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index, current_leader_epoch=leader_epoch, leader_epoch=epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))


def _end(one: TopicPartition, found: Any, leader_epoch: int) -> EpochEnd | KafkaError:
    if code := ErrorCode.of(found.error_code):
        return KafkaError(code, f"{one}: {code.message}")
    return EpochEnd(found.leader_epoch, found.end_offset, leader_epoch)
