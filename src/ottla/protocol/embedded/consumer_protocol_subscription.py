"""ConsumerProtocolSubscription."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, octets, string


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = array(string)
    user_data: bytes | None = octets(nullable=True, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable=True, default=None, ignorable=True)
