"""Eligible leader replicas: who is remembered, who is elected, and who is forgotten."""

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
    registered,
    registration,
    started,
    unfenced,
)

from ottla.broker.controller.alter_configs import ConfigChange, KeyChange, Operation, alter_configs
from ottla.broker.controller.broker_states import lose_folders
from ottla.broker.controller.config_rules import ConfigRules
from ottla.broker.controller.elect_leaders import elect_leaders
from ottla.broker.controller.eligible import explicit_min_isr, level_changed, min_isr_by_topic
from ottla.broker.controller.feature_levels import update_features
from ottla.broker.controller.reassignments import alter_reassignments
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.features import ELR_VERSION_FEATURE
from ottla.broker.metadata.image import NO_LEADER, MetadataImage
from ottla.broker.metadata.resources import CLUSTER_DEFAULT, ConfigResource, ResourceType
from ottla.broker.metadata.snapshot import image_records
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.metadata_records.clear_elr_record import ClearElrRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord

MIN_ISR = "min.insync.replicas"
TOPIC: ConfigResource = (ResourceType.TOPIC, "t")
IMAGE = placed(cluster(1, 2, 3), 1, 2, 3, min_insync_replicas="2")


def state(image: MetadataImage) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR, ELR, and who led last while nobody does."""
    part = partition_of(image)
    return part.leader, part.isr, part.eligible_leader_replicas, part.last_known_elr


def back(
    image: MetadataImage, broker: int, *, clean: bool, directories: tuple[bytes, ...] = ()
) -> MetadataImage:
    """Registered anew and serving."""
    epoch = image.brokers[broker].epoch if clean else -1
    request = registration(
        broker, incarnation=1000 + image.offset, previous_epoch=epoch, directories=directories
    )
    return unfenced(registered(image, request), broker)


def configured(
    image: MetadataImage, resource: ConfigResource, value: str | None
) -> tuple[MetadataImage, ErrorCode | None]:
    key = KeyChange(MIN_ISR, Operation.DELETE if value is None else Operation.SET, value)
    changes = [ConfigChange(resource, [key])]
    decision = alter_configs(image, changes, ConfigRules(1, CONFIG), validate_only=False)
    error = decision.response[0]
    return applied(image, decision), None if error is None else error.code


def levelled(image: MetadataImage, level: int) -> MetadataImage:
    update = FeatureUpdateKey(
        feature=ELR_VERSION_FEATURE, max_version_level=level, upgrade_type=1 if level else 2
    )
    levels, _ = update_features(image, UpdateFeaturesRequest(feature_updates=[update]))
    return applied(image, Decision([*level_changed(image, levels, CONFIG), *levels], None))


def moved(
    image: MetadataImage, replicas: list[int] | None
) -> Decision[AlterPartitionReassignmentsResponse]:
    wanted = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[wanted])]
    )
    return alter_reassignments(image, request, elections_by_topic(image, CONFIG))


def test_who_leaves_while_enough_are_in_sync_is_not_eligible():
    assert state(fenced(IMAGE, 3)) == (1, (1, 2), (), ())


def test_who_leaves_below_the_minimum_is_eligible_down_to_the_last():
    assert state(fenced(IMAGE, 3, 2)) == (1, (1,), (2,), ())
    assert state(fenced(IMAGE, 3, 2, 1)) == (NO_LEADER, (), (1, 2), (1,))


@pytest.mark.parametrize("first", [1, 2])
def test_the_first_eligible_one_that_is_back_leads_and_the_other_stays_eligible(first: int):
    image = fenced(IMAGE, 3, 2, 1)
    image = unfenced(image, 3)
    assert state(image)[0] == NO_LEADER
    assert state(unfenced(image, first)) == (first, (first,), (3 - first,), ())


def test_the_last_in_sync_that_lost_its_end_does_not_lead_where_another_is_eligible():
    image = back(fenced(IMAGE, 3, 2, 1), 1, clean=False)
    assert state(image) == (NO_LEADER, (), (2,), (1,))
    assert state(back(image, 2, clean=True)) == (2, (2,), (), ())


def test_who_stopped_properly_stays_eligible_when_it_registers():
    image = fenced(IMAGE, 3, 2)
    request = registration(2, incarnation=9, previous_epoch=image.brokers[2].epoch)
    assert state(registered(image, request)) == (1, (1,), (2,), ())
    assert state(registered(image, registration(2, incarnation=9))) == (1, (1,), (), ())


def test_a_leader_that_crashed_is_followed_by_one_that_is_eligible_at_once():
    image = unfenced(fenced(IMAGE, 3, 2), 2)
    assert state(image) == (1, (1,), (2,), ())
    image = registered(image, registration(1, incarnation=9))
    assert state(image) == (2, (2,), (), ())


def test_where_all_crashed_the_last_that_counted_leads_and_says_that_it_recovers():
    image = fenced(IMAGE, 3, 2, 1)
    for broker in (3, 1):
        image = back(image, broker, clean=False)
    assert state(image)[0] == NO_LEADER
    image = back(image, 2, clean=False)
    assert state(image) == (2, (2,), (), ())
    assert partition_of(image).leader_recovery_state == 1


def test_a_folder_that_is_lost_makes_nobody_eligible():
    image = lost = fenced(placed(cluster(1, 2, 3), 1, 2, 3, min_insync_replicas="3"), 3)
    assert state(image) == (1, (1, 2), (3,), ())
    image = back(image, 3, clean=True, directories=(b"another folder..",))
    assert state(image) == (1, (1, 2), (), ())
    records = lose_folders(lost, lost.brokers[2], [folder(2)], elections_by_topic(lost, CONFIG))
    assert state(applied(lost, Decision(records, None))) == (1, (1,), (3,), ())


def test_an_unclean_election_that_is_asked_for_looks_beyond_the_eligible():
    image = unfenced(fenced(IMAGE, 3, 2, 1), 3)
    decision = elect_leaders(image, ElectLeadersRequest(election_type=1, topic_partitions=None))
    assert state(applied(image, decision)) == (3, (3,), (), ())


def test_a_topic_with_fewer_replicas_than_the_minimum_counts_those_it_has():
    image = placed(cluster(1, 2), 1, 2, min_insync_replicas="5")
    assert state(fenced(image, 2)) == (1, (1,), (2,), ())
    assert state(fenced(placed(cluster(1), 1, min_insync_replicas="2"), 1))[2] == (1,)


def test_a_lower_minimum_forgets_the_eligible_before_the_leader_commits_without_them():
    image = fenced(IMAGE, 3, 2)
    assert state(configured(image, TOPIC, "1")[0]) == (1, (1,), (), ())
    assert state(configured(image, TOPIC, "3")[0]) == (1, (1,), (2,), ())
    assert state(configured(image, TOPIC, None)[0]) == (1, (1,), (), ())


def test_a_lower_minimum_of_a_partition_that_nobody_leads_leaves_those_it_waits_for():
    image = configured(fenced(IMAGE, 3, 2, 1), TOPIC, "1")[0]
    assert state(image) == (NO_LEADER, (), (1, 2), (1,))
    assert state(unfenced(image, 2)) == (2, (2,), (), ())


def test_the_minimum_of_single_brokers_is_refused_and_that_of_the_cluster_stays_stated():
    image = applied(IMAGE, Decision(explicit_min_isr(IMAGE, CONFIG), None))
    assert image.config(CLUSTER_DEFAULT) == {MIN_ISR: "1"}
    assert explicit_min_isr(image, CONFIG) == []
    assert configured(image, (ResourceType.BROKER, "1"), "2")[1] is ErrorCode.INVALID_CONFIG
    assert configured(image, CLUSTER_DEFAULT, None)[1] is ErrorCode.INVALID_CONFIG
    after, error = configured(image, CLUSTER_DEFAULT, "2")
    assert error is None
    assert min_isr_by_topic(after)("another") == 2


def test_switched_off_the_eligible_are_waited_for_in_the_isr_and_on_again_nothing_is_left():
    image = levelled(fenced(IMAGE, 3, 2, 1), 0)
    assert state(image) == (NO_LEADER, (1, 2), (), ())
    assert configured(image, (ResourceType.BROKER, "1"), "2")[1] is None
    image = unfenced(image, 2)
    assert state(image) == (2, (1, 2), (), ())
    with_own = configured(image, (ResourceType.BROKER, "1"), "2")[0]
    again = levelled(with_own, 1)
    assert again.config(CLUSTER_DEFAULT) == {MIN_ISR: "1"}
    assert again.config((ResourceType.BROKER, "1")) == {}
    assert state(again) == (2, (1, 2), (), ())


def test_one_that_waited_alone_from_before_is_still_waited_for_after_a_crash():
    image = levelled(fenced(levelled(IMAGE, 0), 3, 2, 1), 1)
    assert state(image) == (NO_LEADER, (1,), (), ())
    image = back(back(image, 2, clean=False), 1, clean=False)
    assert state(image) == (1, (1,), (), ())


def test_the_broker_beside_the_only_controller_leaves_to_the_eligible_what_it_may_have_lost():
    image = unfenced(fenced(IMAGE, 3, 2), 2)
    assert state(started(image, registration(1, incarnation=9))) == (2, (2,), (), ())
    epoch = image.brokers[1].epoch
    clean = started(image, registration(1, incarnation=9, previous_epoch=epoch))
    assert state(clean) == (1, (1,), (2,), ())


def test_a_cancelled_move_does_not_give_up_the_last_but_one_that_has_everything():
    image = placed(cluster(1, 2, 3), 1, 2, min_insync_replicas="2")
    image = fenced(applied(image, moved(image, [3, 1, 2])), 2)
    change = PartitionChangeRecord(
        topic_id=image.topics["t"].id, partition_id=0, isr=[1, 3], eligible_leader_replicas=[]
    )
    image = applied(image, Decision([change], None))
    refused = moved(image, None)
    code = refused.response.responses[0].partitions[0].error_code
    assert (code, refused.records) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, [])


def test_kafkas_record_clears_a_topic_or_all_and_snapshots_keep_what_there_is():
    image = fenced(IMAGE, 3, 2, 1)
    again = MetadataImage(cluster_id="test").apply(image_records(image), image.offset, image.epoch)
    assert again.topics == image.topics
    for name in ("t", ""):
        cleared = image.apply([ClearElrRecord(topic_name=name)], image.offset + 1, 1)
        assert state(cleared) == (NO_LEADER, (), (), ())
