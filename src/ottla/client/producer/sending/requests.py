"""Builds Produce requests from batches, and assigns responses to batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.values import TopicPartition
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


class Load:
    """The batches of one request, at most one per partition."""

    __slots__ = ("batches", "posted_at", "size", "topic_names")

    def __init__(self) -> None:
        self.batches: list[ProducerBatch] = []
        self.size = 0
        self.posted_at = 0.0
        self.topic_names: dict[bytes, str] = {}
        """By topic id at the time of sending: from version 13 on responses have only the ids."""

    def add(self, batch: ProducerBatch, size: int) -> None:
        self.batches.append(batch)
        self.size += size

    def request(
        self,
        routes: Mapping[str, TopicRoute],
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
    ) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in self.batches:
            name, index = batch.partition
            topic = topics.get(name)
            if topic is None:
                topic_id = routes[name].topic_id
                self.topic_names[topic_id] = name
                topic = topics[name] = TopicProduceData(
                    name=name, topic_id=topic_id, partition_data=[]
                )
            topic.partition_data.append(PartitionProduceData(index=index, records=batch.data))
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=list(topics.values()),
        )

    def answers(self, response: Any) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(topic.name or self.topic_names.get(topic.topic_id, ""), answer.index): (
                answer
            )
            for topic in response.responses
            for answer in topic.partition_responses
        }
