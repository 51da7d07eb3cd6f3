"""ConsumerProtocolAssignment."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, octets, string


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = octets(nullable=True, default=None)
