"""Brokers register, are fenced and unfenced, lose folders and are forgotten."""

from __future__ import annotations

import pytest
from controller_cases import (
    CONFIG,
    ONE_BROKER,
    applied,
    cluster,
    fenced,
    folder,
    partition_of,
    placed,
    registered,
    registration,
    started,
    topic,
    unfenced,
    with_topics,
)

from ottla.broker.controller.broker_states import lose_folders, unregister
from ottla.broker.controller.registration import register_broker, take_in
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.uuids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY

FIRST, SECOND = b"1" * 16, b"2" * 16
EMPTY = MetadataImage(cluster_id="test", offset=0)
THREE = cluster(1, 2, 3)


def refusal(
    image: MetadataImage, request: BrokerRegistrationRequest, *, is_alive: bool = False
) -> ErrorCode:
    elections = elections_by_topic(image, CONFIG)
    with pytest.raises(KafkaError) as refused:
        register_broker(image, request, elections, is_alive=is_alive)
    return refused.value.code


def without_folders(image: MetadataImage, broker_id: int, *lost: bytes) -> MetadataImage:
    elections = elections_by_topic(image, CONFIG)
    records = lose_folders(image, image.brokers[broker_id], lost, elections)
    return applied(image, Decision(records, None))


# Registration


def test_a_registered_broker_is_fenced_and_its_epoch_is_the_offset_of_its_record():
    request = registration(1, rack="r")
    decision = register_broker(EMPTY, request, elections_by_topic(EMPTY, CONFIG), is_alive=False)
    broker = applied(EMPTY, decision).brokers[1]
    assert broker.fenced
    assert not broker.is_active
    assert broker.rack == "r"
    assert broker.endpoints["PLAINTEXT"].host == "host1"
    kinds = [record.__class__.__name__ for record in decision.records]
    epoch = decision.response.broker_epoch
    assert broker.epoch == epoch == 1 + kinds.index("RegisterBrokerRecord")


def test_the_first_registration_states_the_features_and_later_ones_do_not():
    levels = {
        "metadata.version": 30,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert ONE_BROKER.features == levels
    elections = elections_by_topic(ONE_BROKER, CONFIG)
    again = register_broker(ONE_BROKER, registration(2), elections, is_alive=False)
    assert [r.__class__.__name__ for r in again.records] == ["RegisterBrokerRecord"]


def test_the_same_process_keeps_its_epoch_and_its_state():
    again = registered(THREE, registration(1, rack="moved"), is_alive=True).brokers[1]
    assert again.epoch == THREE.brokers[1].epoch
    assert again.rack == "moved"
    assert again.is_active


def test_another_process_with_the_id_of_a_live_broker_is_refused():
    other = registration(1, incarnation=2, directories=(FIRST,))
    assert refusal(THREE, other, is_alive=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert registered(THREE, other).brokers[1].epoch > THREE.brokers[1].epoch


def test_a_process_with_the_folders_of_a_live_broker_is_its_successor():
    image = registered(THREE, registration(1, incarnation=2), is_alive=True)
    assert image.brokers[1].epoch > THREE.brokers[1].epoch
    assert image.brokers[1].fenced


def test_a_new_process_is_out_of_sync_and_leads_nothing_that_others_can():
    image = placed(placed(THREE, 1, 2, 3), 1, name="alone")
    image = registered(image, registration(1, incarnation=2))
    assert partition_of(image).isr == (2, 3)
    assert partition_of(image).leader == 2
    assert partition_of(image).leader_epoch == 1
    alone = partition_of(image, name="alone")
    assert (alone.leader, alone.isr, alone.last_known_elr) == (NO_LEADER, (), (1,))
    back = unfenced(image, 1)
    alone = partition_of(back, name="alone")
    assert (alone.leader, alone.leader_epoch, alone.isr) == (1, 2, (1,))
    assert partition_of(back).isr == (2, 3)


def change(**fields: object) -> BrokerRegistrationRequest:
    request = registration(4)
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (change(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (change(log_dirs=[]), ErrorCode.INVALID_REGISTRATION),
        (change(log_dirs=[FIRST, FIRST]), ErrorCode.INVALID_REGISTRATION),
        (change(log_dirs=[LOST_DIRECTORY]), ErrorCode.INVALID_REGISTRATION),
        (change(log_dirs=[folder(2)]), ErrorCode.INVALID_REGISTRATION),
        (change(is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (change(features=[]), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_who_does_not_fit_is_refused(request_: BrokerRegistrationRequest, code: ErrorCode):
    assert refusal(THREE, request_) is code


def test_a_controller_is_noted_once_a_process():
    from ottla.broker.controller.registration import register_controller

    request = ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=FIRST,
        listeners=[Listener(name="CONTROLLER", host="h", port=9093)],
        features=[Feature(name="f", min_supported_version=1, max_supported_version=3)],
    )
    image = applied(THREE, register_controller(THREE, request))
    assert image.controllers[7].endpoints["CONTROLLER"].port == 9093
    assert image.controllers[7].features == {"f": (1, 3)}
    assert register_controller(image, request).records == []


# The broker that lives with the only controller


def test_the_only_node_serves_at_once():
    image = started(EMPTY, registration(1))
    assert image.brokers[1].is_active


def test_a_clean_restart_keeps_leader_epochs_and_a_crash_renews_them():
    image = with_topics(ONE_BROKER, topic("t", 2))
    epoch = image.brokers[1].epoch
    clean = started(image, registration(1, incarnation=2, previous_epoch=epoch))
    assert [p.leader_epoch for p in clean.topics["t"].partitions.values()] == [0, 0]
    assert clean.brokers[1].is_active
    crashed = started(image, registration(1, incarnation=2))
    partitions = crashed.topics["t"].partitions.values()
    assert [(p.leader, p.leader_epoch) for p in partitions] == [(1, 1), (1, 1)]


def test_after_a_crash_of_the_only_controller_those_in_sync_lead_what_it_led():
    image = with_topics(cluster(1, 2), topic("t", 4, 2))
    after = started(image, registration(1, incarnation=2))
    for index, partition in after.topics["t"].partitions.items():
        assert (partition.leader, partition.isr) == (2, (2,))
        assert partition.leader_epoch == (0 if partition_of(image, index).leader == 2 else 1)


# Fencing


def test_a_fenced_broker_leads_nothing_and_is_waited_for_where_it_is_the_last_in_sync():
    image = placed(placed(THREE, 1, 2), 1, name="alone")
    image = fenced(image, 1)
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2,))
    alone = partition_of(image, name="alone")
    assert (alone.leader, alone.isr, alone.eligible_leader_replicas) == (NO_LEADER, (), (1,))
    image = unfenced(fenced(image, 2), 1)
    waits = partition_of(image)
    assert (waits.leader, waits.isr, waits.eligible_leader_replicas) == (NO_LEADER, (), (2,))
    assert partition_of(image, name="alone").leader == 1


def test_who_comes_back_leads_what_waited_for_it():
    image = fenced(placed(THREE, 1, 2), 1, 2)
    assert partition_of(image).leader == NO_LEADER
    back = unfenced(image, 2)
    assert (partition_of(back).leader, partition_of(back).isr) == (2, (2,))
    assert partition_of(back).leader_recovery_state == 0


def test_a_topic_that_allows_loss_gets_a_leader_out_of_sync_and_says_so():
    image = placed(THREE, 1, 2, unclean_leader_election_enable="true")
    image = unfenced(fenced(image, 2, 1), 2)
    partition = partition_of(image)
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.leader_recovery_state == 1


def test_a_forgotten_broker_is_in_no_isr():
    image = placed(THREE, 1, 2)
    records = unregister(image, 1, elections_by_topic(image, CONFIG))
    image = applied(image, Decision(records, None))
    assert 1 not in image.brokers
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2,))
    assert partition_of(image).replicas == (1, 2)
    with pytest.raises(KafkaError) as unknown:
        unregister(image, 1, elections_by_topic(image, CONFIG))
    assert unknown.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


# Folders


def two_folders() -> MetadataImage:
    image = started(EMPTY, registration(1, directories=(FIRST, SECOND)))
    return with_topics(image, topic("t", 2))


def test_a_broker_with_several_folders_tells_later_which_one_it_chose():
    assert partition_of(two_folders()).directories == (UNASSIGNED_DIRECTORY,)


def test_others_lead_what_was_in_a_lost_folder():
    image = registered(EMPTY, registration(1, directories=(FIRST, SECOND)))
    image = unfenced(registered(unfenced(image, 1), registration(2)), 2)
    image = placed(placed(image, 1, 2), 1, 2, name="u")
    image = _with_folder(_with_folder(image, "t", FIRST), "u", SECOND)
    image = without_folders(image, 1, SECOND)
    assert image.brokers[1].directories == (FIRST,)
    assert (partition_of(image).leader, partition_of(image).isr) == (1, (1, 2))
    lost = partition_of(image, name="u")
    assert (lost.leader, lost.isr) == (2, (2,))


def test_what_waits_for_a_lost_folder_is_led_again_when_the_folder_is_back():
    image = _with_folder(two_folders(), "t", SECOND)
    image = without_folders(image, 1, SECOND)
    assert partition_of(image).leader == NO_LEADER
    back = started(image, registration(1, incarnation=2, directories=(FIRST, SECOND)))
    assert partition_of(back).leader == 1


def _with_folder(image: MetadataImage, name: str, directory: bytes) -> MetadataImage:
    from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord

    partition = partition_of(image, name=name)
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=image.topics[name].id,
        directories=[directory, *partition.directories[1:]],
    )
    return image.apply([record], image.offset + 1, 1)


def test_taking_in_is_refused_like_any_registration():
    with pytest.raises(KafkaError) as refused:
        take_in(EMPTY, change(cluster_id="other"), elections_by_topic(EMPTY, CONFIG))
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
