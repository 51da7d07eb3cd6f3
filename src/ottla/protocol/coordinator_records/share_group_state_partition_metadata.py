"""ShareGroupStatePartitionMetadata, record type 15."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, string, uuid


class ShareGroupStatePartitionMetadataKey(Message, api_key=15, versions=(0, 0)):
    group_id: str = string()


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions=(0, 0), flexible=0):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
