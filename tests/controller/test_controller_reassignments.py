"""Replicas move, stop moving, and are listed while they do."""

from __future__ import annotations

import pytest
from controller_cases import (
    CONFIG,
    applied,
    cluster,
    fenced,
    folder,
    partition_of,
    placed,
    unfenced,
)

from ottla.broker.controller.partition_change import Target, change_partition
from ottla.broker.controller.reassignments import alter_reassignments, list_reassignments
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

IMAGE = placed(cluster(1, 2, 3, 4, 5), 1, 2, 3)


def reassign(
    image: MetadataImage,
    replicas: list[int] | None,
    *,
    name: str = "t",
    index: int = 0,
    may_resize: bool = True,
) -> tuple[MetadataImage, ErrorCode]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
        ],
        allow_replication_factor_change=may_resize,
    )
    decision = alter_reassignments(image, request, elections_by_topic(image, CONFIG))
    answer = decision.response.responses[0].partitions[0]
    return applied(image, decision), ErrorCode(answer.error_code)


def reassigned(image: MetadataImage, *replicas: int) -> MetadataImage:
    after, code = reassign(image, list(replicas))
    assert code is ErrorCode.NONE
    return after


def in_sync(image: MetadataImage, *isr: int) -> MetadataImage:
    target = Target.of(partition_of(image))._replace(isr=isr)
    record = change_partition(image.topics["t"].id, partition_of(image), image.brokers, target)
    assert record is not None
    return image.apply([record], image.offset + 1, 1)


def test_new_replicas_are_added_first_and_old_ones_go_when_the_new_are_in_sync():
    image = reassigned(IMAGE, 4, 5, 3)
    partition = partition_of(image)
    assert partition.replicas == (4, 5, 3, 1, 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (1, 2))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2, 3), 0)
    assert partition.directories[:2] == (folder(4), folder(5))
    image = in_sync(image, 1, 2, 3, 4)
    assert partition_of(image).is_reassigned
    image = in_sync(image, 1, 2, 3, 4, 5)
    partition = partition_of(image)
    assert (partition.replicas, partition.isr) == ((4, 5, 3), (3, 4, 5))
    assert (partition.leader, partition.leader_epoch) == (4, 1)
    assert not partition.is_reassigned
    assert partition.directories == (folder(4), folder(5), folder(3))


def test_another_order_is_there_at_once():
    partition = partition_of(reassigned(IMAGE, 3, 2, 1))
    assert partition.replicas == (3, 2, 1)
    assert (partition.leader, partition.leader_epoch) == (1, 0)
    assert partition.directories == (folder(3), folder(2), folder(1))


def test_fewer_replicas_are_there_at_once_and_start_a_new_epoch():
    partition = partition_of(reassigned(IMAGE, 1, 2))
    assert (partition.replicas, partition.isr) == ((1, 2), (1, 2))
    assert (partition.leader, partition.leader_epoch) == (1, 1)


def test_more_replicas_wait_for_the_new_ones():
    image = reassigned(IMAGE, 1, 2, 3, 4)
    assert partition_of(image).adding_replicas == (4,)
    partition = partition_of(in_sync(image, 1, 2, 3, 4))
    assert (partition.replicas, partition.leader_epoch) == ((1, 2, 3, 4), 0)
    assert not partition.is_reassigned


def test_a_reassignment_waits_for_replicas_that_are_not_in_sync():
    image = fenced(IMAGE, 2)
    image = reassigned(image, 4, 2)
    image = in_sync(image, 1, 3, 4)
    assert partition_of(image).is_reassigned


def test_a_cancelled_reassignment_leaves_what_was_before():
    image = in_sync(reassigned(IMAGE, 4, 5, 3), 1, 2, 3, 4)
    image, code = reassign(image, None)
    assert code is ErrorCode.NONE
    partition = partition_of(image)
    assert sorted(partition.replicas) == [1, 2, 3]
    assert partition.isr == (1, 2, 3)
    assert not partition.is_reassigned
    assert partition.leader_epoch == 1
    assert reassign(image, None)[1] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_after_a_change_of_mind_leaves_what_was_before_the_first():
    image = reassigned(reassigned(IMAGE, 1, 2, 4), 1, 2, 5)
    partition = partition_of(image)
    assert partition.replicas == (1, 2, 5, 3, 4)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (3, 4))
    image, _ = reassign(image, None)
    assert sorted(partition_of(image).replicas) == [1, 2, 3]


def test_asking_for_the_old_replicas_ends_a_reassignment():
    image = reassigned(reassigned(IMAGE, 1, 2, 4), 1, 2, 3)
    assert partition_of(image).replicas == (1, 2, 3)
    assert not partition_of(image).is_reassigned


def test_cancelling_is_refused_where_only_new_replicas_are_in_sync():
    image = in_sync(reassigned(IMAGE, 4, 5), 1, 4)
    image = fenced(image, 1)
    assert partition_of(image).isr == (4,)
    assert reassign(image, None)[1] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_cancelling_there_loses_data_only_where_that_is_allowed():
    image = placed(cluster(1, 2, 3, 4), 1, 2, unclean_leader_election_enable="true")
    image = fenced(in_sync(reassigned(image, 3, 4), 1, 2, 3), 2, 1)
    assert (partition_of(image).leader, partition_of(image).isr) == (3, (3,))
    image, code = reassign(unfenced(image, 1), None)
    assert code is ErrorCode.NONE
    assert (partition_of(image).leader, partition_of(image).isr) == (1, (1,))


def test_the_last_one_in_sync_is_not_forgotten():
    image = fenced(reassigned(IMAGE, 4), 2, 3, 1)
    partition = partition_of(image)
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert partition.eligible_leader_replicas == (1,)
    assert partition.is_reassigned


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused(replicas: list[int] | None, code: ErrorCode):
    after, refused = reassign(IMAGE, replicas)
    assert refused is code
    assert after.topics == IMAGE.topics


def test_unknown_partitions_are_refused():
    assert reassign(IMAGE, [1], name="?")[1] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(IMAGE, [1], index=7)[1] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_number_of_replicas_stays_where_the_request_wants_it_so():
    code = reassign(IMAGE, [1, 2], may_resize=False)[1]
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(IMAGE, [1, 2, 4], may_resize=False)[1] is ErrorCode.NONE


def test_what_is_under_way_is_listed():
    image = placed(reassigned(IMAGE, 4, 2, 3), 1, name="quiet")
    everything = list_reassignments(image, ListPartitionReassignmentsRequest(topics=None))
    assert [topic.name for topic in everything.topics] == ["t"]
    ongoing = everything.topics[0].partitions[0]
    assert (ongoing.replicas, ongoing.adding_replicas) == ([4, 2, 3, 1], [4])
    assert ongoing.removing_replicas == [1]
    asked = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 3])
        for name in ("t", "quiet", "unknown")
    ]
    some = list_reassignments(image, ListPartitionReassignmentsRequest(topics=asked))
    assert some.topics == everything.topics
