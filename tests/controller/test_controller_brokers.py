from __future__ import annotations

import pytest
from controller_cases import ONE_BROKER, applied, cluster, registration, topic, with_topics

from ottla.controller.brokers import assign_directories, change_directories, register_broker
from ottla.controller.producer_ids import BLOCK_SIZE, allocate_block
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import KafkaError
from ottla.protocol.uuids import UNASSIGNED_DIRECTORY

FIRST, SECOND = b"1" * 16, b"2" * 16


def two_folders() -> MetadataImage:
    image = MetadataImage()
    both = registration(1, directories=(FIRST, SECOND))
    image = applied(image, register_broker(image, both, clean=True))
    return with_topics(image, topic("t", 2))


def test_a_registered_broker_is_active_and_its_epoch_is_the_offset_of_its_record():
    decision = register_broker(MetadataImage(offset=0), registration(1, rack="r"), clean=True)
    image = MetadataImage(offset=0).apply(decision.records, len(decision.records), 1)
    broker = image.brokers[1]
    assert broker.is_active
    assert broker.rack == "r"
    assert broker.endpoints["PLAINTEXT"].host == "host1"
    kinds = [record.__class__.__name__ for record in decision.records]
    assert broker.epoch == decision.response == 1 + kinds.index("RegisterBrokerRecord")


def test_the_first_registration_states_the_metadata_version_and_later_ones_do_not():
    assert ONE_BROKER.features == {"metadata.version": 30, "transaction.version": 2}
    again = register_broker(ONE_BROKER, registration(1), clean=True)
    assert [r.__class__.__name__ for r in again.records] == [
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    ]


def test_a_clean_restart_keeps_leader_epochs_and_a_crash_renews_them():
    image = with_topics(ONE_BROKER, topic("t", 2))
    clean = applied(image, register_broker(image, registration(1), clean=True))
    assert [p.leader_epoch for p in clean.topics["t"].partitions.values()] == [0, 0]
    crashed = applied(image, register_broker(image, registration(1), clean=False))
    partitions = crashed.topics["t"].partitions.values()
    assert [(p.leader, p.leader_epoch) for p in partitions] == [(1, 1), (1, 1)]


def test_a_crash_of_one_broker_does_not_touch_what_others_lead():
    image = with_topics(cluster(1, 2), topic("t", 4, 2))
    after = applied(image, register_broker(image, registration(1), clean=False))
    for partition in after.topics["t"].partitions.values():
        assert partition.leader_epoch == (1 if partition.leader == 1 else 0)


def test_partitions_of_a_lost_folder_lose_their_leader_and_get_it_back_with_the_folder():
    image = two_folders()
    chosen = {(image.topics["t"].id, 0): FIRST, (image.topics["t"].id, 1): SECOND}
    image = applied(image, assign_directories(image, 1, chosen))
    lost = applied(image, change_directories(image, 1, [FIRST]))
    assert [p.leader for p in lost.topics["t"].partitions.values()] == [1, NO_LEADER]
    assert lost.topics["t"].partitions[1].isr == (1,)
    again = registration(1, directories=(FIRST, SECOND))
    back = applied(lost, register_broker(lost, again, clean=True))
    assert [p.leader for p in back.topics["t"].partitions.values()] == [1, 1]
    assert back.topics["t"].partitions[1].leader_epoch == 2


def test_another_in_sync_replica_takes_over_from_a_lost_folder():
    image = applied(
        MetadataImage(),
        register_broker(MetadataImage(), registration(1, directories=(FIRST, SECOND)), clean=True),
    )
    image = applied(image, register_broker(image, registration(2), clean=True))
    image = with_topics(image, topic("t", 1, 2))
    partition = image.topics["t"].partitions[0]
    image = applied(image, assign_directories(image, 1, {(image.topics["t"].id, 0): SECOND}))
    after = applied(image, change_directories(image, 1, [FIRST])).topics["t"].partitions[0]
    assert partition.leader in (1, 2)
    assert after.leader == 2


def test_a_broker_with_several_folders_tells_later_which_one_it_chose():
    image = two_folders()
    assert image.topics["t"].partitions[0].directories == (UNASSIGNED_DIRECTORY,)
    chosen = {(image.topics["t"].id, 0): SECOND, (b"gone" * 4, 0): SECOND}
    decision = assign_directories(image, 1, chosen)
    after = applied(image, decision).topics["t"].partitions[0]
    assert after.directories == (SECOND,)
    assert after.leader_epoch == 0
    assert assign_directories(applied(image, decision), 1, chosen).records == []


def test_a_replica_that_moved_from_a_replaced_folder_can_lead_again():
    image = two_folders()
    topic_id = image.topics["t"].id
    image = applied(image, assign_directories(image, 1, {(topic_id, 0): FIRST}))
    replaced = registration(1, directories=(b"new!" * 4, SECOND))
    image = applied(image, register_broker(image, replaced, clean=True))
    assert image.topics["t"].partitions[0].leader == NO_LEADER
    image = applied(image, assign_directories(image, 1, {(topic_id, 0): SECOND}))
    assert image.topics["t"].partitions[0].leader == 1


def test_a_broker_that_lost_every_folder_cannot_stay():
    with pytest.raises(ValueError, match="without a working folder"):
        change_directories(two_folders(), 1, [])


def test_producer_ids_come_in_blocks_that_never_overlap():
    image, seen = ONE_BROKER, set()
    for _ in range(3):
        decision = allocate_block(image, 1)
        assert len(decision.response) == BLOCK_SIZE
        assert not seen & set(decision.response)
        seen |= set(decision.response)
        image = applied(image, decision)
    assert min(seen) == 0


def test_producer_ids_end_at_the_largest_number():
    image = MetadataImage(next_producer_id=2**63 - 500)
    with pytest.raises(KafkaError):
        allocate_block(image, 1)
