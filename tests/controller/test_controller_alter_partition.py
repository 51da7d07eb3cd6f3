"""Leaders say who is in sync, and are followed only where they know what they change."""

from __future__ import annotations

from typing import Any

import pytest
from controller_cases import (
    CONFIG,
    applied,
    cluster,
    fenced,
    partition_of,
    placed,
    registered,
    registration,
    unfenced,
)

from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.controller.reassignments import alter_reassignments
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

THREE = placed(cluster(1, 2, 3, 4), 1, 2, 3)


def request(
    image: MetadataImage, isr: list[int], *, broker: int = 1, **fields: Any
) -> AlterPartitionRequest:
    partition = partition_of(image)
    given = {
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": [
            BrokerState(
                broker_id=i, broker_epoch=image.brokers[i].epoch if i in image.brokers else 1
            )
            for i in isr
        ],
        "leader_recovery_state": 0,
    }
    given.update(fields)
    change = RequestPartitionData(partition_index=given.pop("index", 0), **given)
    return AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=image.brokers[broker].epoch,
        topics=[RequestTopicData(topic_id=image.topics["t"].id, partitions=[change])],
    )


def alter(
    image: MetadataImage, asked: AlterPartitionRequest
) -> tuple[MetadataImage, ResponsePartitionData]:
    decision = alter_partition(image, asked, elections_by_topic(image, CONFIG))
    return applied(image, decision), decision.response.topics[0].partitions[0]


def code(image: MetadataImage, asked: AlterPartitionRequest) -> ErrorCode:
    after, answer = alter(image, asked)
    assert answer.error_code == 0 or after.topics == image.topics
    return ErrorCode(answer.error_code)


def test_the_isr_shrinks_and_grows_without_a_new_leader_epoch():
    image, answer = alter(THREE, request(THREE, [1, 2]))
    assert partition_of(image).isr == (1, 2)
    assert (answer.isr, answer.leader_id, answer.partition_epoch) == ([1, 2], 1, 1)
    image, answer = alter(image, request(image, [1, 2, 3]))
    assert partition_of(image).isr == (1, 2, 3)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 2)


def test_the_oldest_version_names_no_broker_epochs():
    asked = request(THREE, [], new_isr=[1, 3], new_isr_with_epochs=[])
    assert partition_of(alter(THREE, asked)[0]).isr == (1, 3)


def test_saying_what_is_already_so_changes_nothing():
    image, answer = alter(THREE, request(THREE, [1, 2, 3]))
    assert answer.error_code == 0
    assert answer.partition_epoch == 0
    assert image.topics == THREE.topics


@pytest.mark.parametrize(
    ("isr", "fields", "expected"),
    [
        ([1, 2], {"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_does_not_fit_is_refused(isr: list[int], fields: dict[str, Any], expected: ErrorCode):
    assert code(THREE, request(THREE, isr, **fields)) is expected


def test_an_unknown_topic_is_told():
    asked = request(THREE, [1, 2])
    asked.topics[0].topic_id = b"?" * 16
    assert code(THREE, asked) is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_stale_leader_is_refused_as_a_whole():
    asked = request(THREE, [1, 2])
    asked.broker_epoch -= 1
    with pytest.raises(KafkaError) as refused:
        alter_partition(THREE, asked, elections_by_topic(THREE, CONFIG))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_fenced_leaving_and_stale_replicas_may_not_be_in_sync():
    image, _ = alter(THREE, request(THREE, [1, 2]))
    assert code(image, request(fenced(image, 3), [1, 2, 3])) is ErrorCode.NONE
    gone = fenced(image, 3)
    assert code(gone, request(gone, [1, 2, 3])) is ErrorCode.INELIGIBLE_REPLICA
    leaving = gone.brokers[3]._replace(fenced=False, in_controlled_shutdown=True)
    gone.brokers[3] = leaving  # type: ignore[index]
    assert code(gone, request(gone, [1, 2, 3])) is ErrorCode.INELIGIBLE_REPLICA
    back = unfenced(registered(image, registration(3, incarnation=2)), 3)
    stale = request(image, [1, 2, 3], partition_epoch=partition_of(back).partition_epoch)
    assert code(back, stale) is ErrorCode.INELIGIBLE_REPLICA
    assert code(back, request(back, [1, 2, 3])) is ErrorCode.NONE


def test_a_leader_after_loss_says_when_it_has_recovered():
    image = placed(cluster(1, 2), 1, 2, unclean_leader_election_enable="true")
    image = unfenced(fenced(image, 2, 1), 2, 1)
    assert (partition_of(image).leader, partition_of(image).leader_recovery_state) == (2, 1)
    both = request(image, [2, 1], broker=2, leader_recovery_state=1)
    assert code(image, both) is ErrorCode.INVALID_REQUEST
    image, answer = alter(image, request(image, [2, 1], broker=2))
    assert partition_of(image).leader_recovery_state == answer.leader_recovery_state == 0
    assert partition_of(image).isr == (2, 1)


def test_an_isr_that_completes_a_reassignment_may_take_the_leader_away():
    reassign = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[4, 2])]
            )
        ]
    )
    image = applied(THREE, alter_reassignments(THREE, reassign, elections_by_topic(THREE, CONFIG)))
    image, answer = alter(image, request(image, [1, 2, 3, 4]))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = partition_of(image)
    assert (partition.leader, partition.replicas, partition.isr) == (4, (4, 2), (2, 4))
    assert not partition.is_reassigned
    assert partition.leader_epoch == 1
