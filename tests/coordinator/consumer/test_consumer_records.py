"""What consumer groups leave in `__consumer_offsets`: the records of Kafka 4.3, to the number."""

import pytest
from consumer_stage import GROUP, Stage, beating, joining, owning, told

from ottla.broker.coordinator import record_codec
from ottla.broker.coordinator.consumer.member import MemberState
from ottla.broker.coordinator.consumer.metadata_hash import metadata_hash
from ottla.broker.coordinator.consumer.xxh3 import xxh3_64
from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.coordinator_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.coordinator_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)


def transcript(stage: Stage) -> list[str]:
    """The log, a line a record: its type, whose it is, and what it says."""
    lines = []
    for key, value in stage.log:
        record = record_codec.decode(key, value, record_codec.GROUP_RECORDS)
        assert record is not None
        lines.append(_line(record))
    return lines


def _line(record: CoordinatorRecord) -> str:
    whose = getattr(record.key, "member_id", getattr(record.key, "regular_expression", "group"))
    start = f"{type(record.key).API_KEY} {whose}"
    match record.value:
        case None:
            return f"{start} gone"
        case ConsumerGroupCurrentMemberAssignmentValue() as now:
            epochs = f"epoch {now.member_epoch} after {now.previous_member_epoch}"
            return (
                f"{start} {epochs} {MemberState(now.state).name}"
                f" has{_parts(now.assigned_partitions)}"
                f" revokes{_parts(now.partitions_pending_revocation)}"
            )
        case value:
            shown = {
                name: getattr(value, name)
                for name in ("epoch", "assignment_epoch", "subscribed_topic_names", "topics")
                if hasattr(value, name)
            }
            if hasattr(value, "topic_partitions"):
                return f"{start} shall have {[one.partitions for one in value.topic_partitions]}"
            return f"{start} {shown}"


def _parts(topics: list[TopicPartitions]) -> str:
    return "".join(
        f" {index}@{epoch}"
        for topic in topics
        for index, epoch in zip(topic.partitions, topic.assignment_epochs or [], strict=True)
    )


def test_a_rebalance_and_a_bounce_leave_the_records_that_kafka_writes() -> None:
    """Compared record by record with a log of Kafka 4.3 after the same requests."""
    stage = Stage()
    orders = stage.topics.create("orders", 4)
    stage.heartbeat(joining("m1"))
    stage.heartbeat(joining("m2", instance_id="two", server_assignor="range"))
    stage.heartbeat(beating("m1", 2, topic_partitions=owning({orders: range(4)})))
    kept = [index for _, index in told(stage.heartbeat(joining("m1", member_epoch=2))) or ()]
    stage.heartbeat(beating("m1", 2, topic_partitions=owning({orders: kept})))
    stage.heartbeat(beating("m2", 3, instance_id="two"))
    stage.heartbeat(beating("m2", -2, instance_id="two"))
    stage.heartbeat(joining("m3", instance_id="two"))
    stage.heartbeat(beating("m1", -1))
    assert transcript(stage) == [
        # m1 joins
        "5 m1 {'subscribed_topic_names': ['orders']}",
        "3 group {'epoch': 2}",
        "7 m1 shall have [[0, 1, 2, 3]]",
        "6 group {'assignment_epoch': 2}",
        "8 m1 epoch 2 after 0 STABLE has 0@2 1@2 2@2 3@2 revokes",
        # m2 joins, and waits
        "5 m2 {'subscribed_topic_names': ['orders']}",
        "3 group {'epoch': 3}",
        "7 m1 shall have [[2, 3]]",
        "7 m2 shall have [[0, 1]]",
        "6 group {'assignment_epoch': 3}",
        "8 m2 epoch 3 after 0 UNRELEASED_PARTITIONS has revokes",
        # m1 is asked to let go, and does
        "8 m1 epoch 2 after 2 UNREVOKED_PARTITIONS has 2@2 3@2 revokes 0@2 1@2",
        "8 m1 epoch 3 after 2 STABLE has 2@2 3@2 revokes",
        # m2 gets its part
        "8 m2 epoch 3 after 3 STABLE has 0@3 1@3 revokes",
        # m2 leaves for a while, and is back as m3
        "8 m2 epoch -2 after 3 STABLE has 0@0 1@0 revokes",
        "8 m2 gone",
        "7 m2 gone",
        "5 m2 gone",
        "5 m3 {'subscribed_topic_names': ['orders']}",
        "7 m3 shall have [[0, 1]]",
        "8 m3 epoch 0 after 0 STABLE has 0@0 1@0 revokes",
        "8 m3 epoch 3 after 0 STABLE has 0@0 1@0 revokes",
        # m1 leaves
        "8 m1 gone",
        "7 m1 gone",
        "5 m1 gone",
        "3 group {'epoch': 4}",
    ]


def test_records_of_older_kafkas_are_understood() -> None:
    stage = Stage()
    orders = stage.topics.create("orders", 2)
    stage.heartbeat(joining("m1"))
    old = []
    for key, value in stage.log:
        record = record_codec.decode(key, value, record_codec.GROUP_RECORDS)
        assert record is not None
        if isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue):
            record.value.assigned_partitions[0].assignment_epochs = None
        old.append(record_codec.encode(record))
    topics = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    written = CoordinatorRecord(topics, ConsumerGroupPartitionMetadataValue())
    old.append(record_codec.encode(written))
    loaded = stage.reloaded(old)
    assert loaded.group.members["m1"].assigned == {orders: {0: 2, 1: 2}}
    stage.topics.grow("orders", 3)
    loaded.heartbeat(beating("m1", 2))
    assert not loaded.group.has_partition_metadata, "what is no longer used is removed"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 3244421341483603138),
        (1, 1433843135270481901),
        (5, -7384178388048917705),
        (16, -5131753158909839995),
        (33, 4486878507168070088),
        (128, 7440608504995537343),
        (129, -4150982730466284604),
        (240, 7229805477010515663),
        (241, -8364630114420064745),
        (1_025, -9192937061388044938),
        (70_000, 2123421924761853988),
    ],
)
def test_the_hash_is_xxh3(size: int, expected: int) -> None:
    assert xxh3_64(bytes((7 * number + 3) & 255 for number in range(size))) == expected


def _image(racks: list[str | None]) -> MetadataImage:
    def topic(name: str, topic_id: bytes, replicas: list[tuple[int, ...]]) -> TopicImage:
        return TopicImage(
            name,
            topic_id,
            {
                index: PartitionImage(index, ids[0], 0, ids, ids, 0)
                for index, ids in enumerate(replicas)
            },
        )

    topics = [
        topic("orders", bytes(range(16)), [(1, 2), (2,)]),
        topic("payments", b"\x10" + bytes(range(1, 16)), [(3,)]),
    ]
    return MetadataImage(
        topics={one.name: one for one in topics},
        brokers={
            number: BrokerImage(number, 0, bytes(16), {}, rack, False)
            for number, rack in enumerate(racks, 1)
        },
    )


def test_topics_partitions_and_racks_make_the_number_that_kafka_computes() -> None:
    plain = _image([None, None, None])
    assert metadata_hash(["nothing"], plain) == 0
    assert metadata_hash(["orders"], plain) == 3433511394066070737
    assert metadata_hash(["payments", "nothing", "orders"], plain) == 2975400822646902426
    assert metadata_hash(["orders"], _image(["b", "a", None])) == -1428304191513416746
