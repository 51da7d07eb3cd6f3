"""AssignReplicasToDirs: brokers report the log dirs of their replicas."""

from __future__ import annotations

from ottla.broker.controller.broker_states import check_epoch
from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.partition_change import Target, change_partition, without
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import BrokerImage, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.schema import Message


def assign_replicas(
    image: MetadataImage, request: AssignReplicasToDirsRequest, election_of: ElectionOf
) -> Decision[AssignReplicasToDirsResponse]:
    """Record directories. Each replica succeeds or fails by itself. A replica in a failed log dir
    leaves the ISR; one whose directory was missing can lead again."""
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AssignReplicasToDirsResponse()
    for folder in request.directories:
        topics = [
            _assign_topic(image, broker, folder.id, topic, election_of, records)
            for topic in folder.topics
        ]
        response.directories.append(ResponseDirectoryData(id=folder.id, topics=topics))
    return Decision(records, response)


def _assign_topic(
    image: MetadataImage,
    broker: BrokerImage,
    folder: bytes,
    wanted: RequestTopicData,
    election_of: ElectionOf,
    records: list[Message],
) -> ResponseTopicData:
    answer = ResponseTopicData(topic_id=wanted.topic_id)
    for item in wanted.partitions:
        code = _assign(image, broker, folder, wanted.topic_id, item, election_of, records)
        answer.partitions.append(
            ResponsePartitionData(partition_index=item.partition_index, error_code=code)
        )
    return answer


def _assign(
    image: MetadataImage,
    broker: BrokerImage,
    folder: bytes,
    topic_id: bytes,
    item: RequestPartitionData,
    election_of: ElectionOf,
    records: list[Message],
) -> ErrorCode:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(item.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    target = Target.of(partition)
    lost: tuple[int, ...] = ()
    if not broker.has_online(folder):
        lost = (broker.id,)
        target = target._replace(isr=without(partition.isr, lost))
    record = change_partition(
        topic.id,
        partition,
        image.brokers,
        target,
        election=election_of(topic.name),
        moved={broker.id: folder},
        min_isr=min_isr_by_topic(image)(topic.name),
        lost=lost,
    )
    if record is not None:
        records.append(record)
    return ErrorCode.NONE
