"""AlterPartition: the leader of a partition changes its ISR.

Leader and controller change the same state, so the leader names the epochs that it knows; only a
request that matches the present state is carried out.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller.broker_states import check_epoch
from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.partition_change import RECOVERED, RECOVERING, Target, change_partition
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.changes import NO_LEADER_CHANGE, merged
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.schema import Message

ANY_EPOCH: Final = -1


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, election_of: ElectionOf
) -> Decision[AlterPartitionResponse]:
    """Alter partitions. Each one changes or fails by itself; a stale broker's request fails as a
    whole."""
    check_epoch(image, request.broker_id, request.broker_epoch)
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    response = AlterPartitionResponse()
    for wanted in request.topics:
        topic = image.topics_by_id.get(wanted.topic_id)
        answer = ResponseTopicData(topic_id=wanted.topic_id)
        response.topics.append(answer)
        for change in wanted.partitions:
            if topic is None:
                answer.partitions.append(_failed(change, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = topic.partitions.get(change.partition_index)
            code = problem(image, request.broker_id, partition, change)
            if partition is None or code is not ErrorCode.NONE:
                answer.partitions.append(_failed(change, code))
                continue
            target = Target.of(partition)._replace(
                isr=tuple(state.broker_id for state in _new_isr(change)),
                recovery=change.leader_recovery_state,
            )
            record = change_partition(
                topic.id,
                partition,
                image.brokers,
                target,
                election=election_of(topic.name),
                min_isr=min_isr_of(topic.name),
            )
            after = partition
            if record is not None:
                records.append(record)
                after = merged(partition, record)
                if record.leader not in (NO_LEADER_CHANGE, request.broker_id):
                    # The ISR completed a reassignment that removes the leader.
                    answer.partitions.append(_failed(change, ErrorCode.NEW_LEADER_ELECTED))
                    continue
            answer.partitions.append(_altered(after))
    return Decision(records, response)


def problem(
    image: MetadataImage,
    broker_id: int,
    partition: PartitionImage | None,
    change: RequestPartitionData,
) -> ErrorCode:
    """Return why this change may not be made; NONE if it may."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stale = _stale(broker_id, partition, change)
    if stale is not ErrorCode.NONE:
        return stale
    isr = [state.broker_id for state in _new_isr(change)]
    if len(set(isr)) != len(isr) or not set(isr).issubset(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    recovery = change.leader_recovery_state
    if recovery not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if recovery == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if any(not _may_be_in_sync(image, state) for state in _new_isr(change)):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _stale(broker_id: int, partition: PartitionImage, change: RequestPartitionData) -> ErrorCode:
    newer = (
        change.leader_epoch > partition.leader_epoch
        or change.partition_epoch > partition.partition_epoch
    )
    if newer:
        # The broker knows a decision that is not known here: this is no longer the active
        # controller.
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if change.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def _new_isr(change: RequestPartitionData) -> list[BrokerState]:
    """Return the new ISR. Version 2 has only ids, which match every epoch."""
    return change.new_isr_with_epochs or [
        BrokerState(broker_id=broker_id, broker_epoch=ANY_EPOCH) for broker_id in change.new_isr
    ]


def _may_be_in_sync(image: MetadataImage, state: BrokerState) -> bool:
    broker = image.brokers.get(state.broker_id)
    return (
        broker is not None and broker.is_active and state.broker_epoch in (ANY_EPOCH, broker.epoch)
    )


def _failed(change: RequestPartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=change.partition_index, error_code=code)


def _altered(partition: PartitionImage) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
