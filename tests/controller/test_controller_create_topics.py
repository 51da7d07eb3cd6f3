from __future__ import annotations

import pytest
from controller_cases import (
    CONFIG,
    ONE_BROKER,
    applied,
    cluster,
    codes,
    config,
    create,
    folder,
    topic,
    with_topics,
)

from ottla.broker.controller.topics.auto_topics import auto_create_request
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from ottla.protocol.uuids import ZERO_UUID


def manual(name: str, *assignments: tuple[int, list[int]]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ],
    )


def test_a_created_topic_has_the_partitions_and_configs_that_were_asked_for():
    decision = create(ONE_BROKER, topic("orders", 3, retention_ms="1000"))
    image = applied(ONE_BROKER, decision)
    created = image.topics["orders"]
    assert list(created.partitions) == [0, 1, 2]
    assert all(p.leader == 1 and p.isr == (1,) for p in created.partitions.values())
    assert all(p.directories == (folder(1),) for p in created.partitions.values())
    assert image.topic_config("orders") == {"retention.ms": "1000"}
    assert image.topics_by_id[created.id] is created


def test_the_answer_tells_id_size_and_all_settings_with_their_source():
    (result,) = create(ONE_BROKER, topic("orders", 3, retention_ms="1000")).response.topics
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert result.topic_id != ZERO_UUID
    assert result.error_message is None
    configs = {c.name: (c.value, c.config_source) for c in result.configs or ()}
    assert configs["retention.ms"] == ("1000", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)


def test_minus_one_takes_the_defaults_of_the_broker():
    decision = create(ONE_BROKER, topic("t", -1, -1), broker=config(num_partitions="4"))
    assert len(applied(ONE_BROKER, decision).topics["t"].partitions) == 4


def test_validate_only_answers_like_a_creation_and_changes_nothing():
    decision = create(ONE_BROKER, topic("t", 2), validate_only=True)
    assert decision.records == []
    assert codes(decision.response) == {"t": ErrorCode.NONE}
    assert decision.response.topics[0].num_partitions == 2


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "has space", "sl/ash", "ümlaut", "col:on", "new\n"]
)
def test_illegal_names_are_refused(name: str):
    assert codes(create(ONE_BROKER, topic(name)).response) == {
        name: ErrorCode.INVALID_TOPIC_EXCEPTION
    }


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "0", "...", "a" * 249, "__consumer_offsets"])
def test_legal_names_are_accepted(name: str):
    assert codes(create(ONE_BROKER, topic(name)).response) == {name: ErrorCode.NONE}


def test_names_that_a_metric_could_not_tell_apart_collide():
    image = with_topics(ONE_BROKER, topic("a.b"))
    response = create(image, topic("a_b"), topic("a.c"), topic("a_c")).response
    assert codes(response) == {
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a.c": ErrorCode.NONE,
        "a_c": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_an_existing_topic_is_not_created_again():
    image = with_topics(ONE_BROKER, topic("a_b"))
    assert codes(create(image, topic("a_b")).response) == {"a_b": ErrorCode.TOPIC_ALREADY_EXISTS}


def test_a_name_given_twice_fails_once_and_does_not_hurt_others():
    decision = create(ONE_BROKER, topic("t"), topic("u"), topic("t"))
    assert [(r.name, r.error_code) for r in decision.response.topics] == [
        ("u", 0),
        ("t", ErrorCode.INVALID_REQUEST),
    ]
    assert list(applied(ONE_BROKER, decision).topics) == ["u"]


def test_the_metadata_log_cannot_be_created_as_a_topic():
    response = create(ONE_BROKER, topic("__cluster_metadata")).response
    assert codes(response) == {"__cluster_metadata": ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_sizes_are_refused(partitions: int, factor: int, code: ErrorCode):
    assert codes(create(ONE_BROKER, topic("t", partitions, factor)).response) == {"t": code}


@pytest.mark.parametrize("counts", [(10_001,), (2**31 - 1,), (9_999, 2), (2**31 - 1, -(2**31))])
def test_a_request_for_too_many_partitions_is_refused_before_any_is_built(counts: tuple[int, ...]):
    wanted = [topic(f"t{i}", count) for i, count in enumerate(counts)]
    with pytest.raises(KafkaError) as refused:
        create(ONE_BROKER, *wanted)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    "bad",
    [
        topic("t", no_such_key="1"),
        topic("t", retention_ms="soon"),
        topic("t", cleanup_policy="burn"),
        topic("t", retention_ms=None),
    ],
)
def test_bad_configs_are_refused_with_the_key_in_the_message(bad: CreatableTopic):
    (result,) = create(ONE_BROKER, bad).response.topics
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert bad.configs[0].name in (result.error_message or "")


def test_no_topic_without_a_broker():
    response = create(cluster(), topic("t")).response
    assert codes(response) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_a_manual_assignment_is_taken_as_it_is():
    image = cluster(1, 2, 3)
    decision = create(image, manual("t", (1, [2, 3]), (0, [3, 1])))
    partitions = applied(image, decision).topics["t"].partitions
    assert {i: p.replicas for i, p in partitions.items()} == {0: (3, 1), 1: (2, 3)}
    assert list(partitions) == [0, 1]
    assert partitions[0].leader == 3


@pytest.mark.parametrize(
    "assignments",
    [
        [(0, [])],
        [(0, [9])],
        [(0, [1, 1])],
        [(0, [1]), (0, [2])],
        [(1, [1])],
        [(0, [1]), (2, [2])],
        [(0, [1]), (1, [1, 2])],
    ],
)
def test_bad_manual_assignments_are_refused(assignments: list[tuple[int, list[int]]]):
    response = create(cluster(1, 2), manual("t", *assignments)).response
    assert codes(response) == {"t": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_a_manual_assignment_goes_with_neither_count_nor_factor():
    wanted = manual("t", (0, [1]))
    wanted.num_partitions = 1
    assert codes(create(ONE_BROKER, wanted).response) == {"t": ErrorCode.INVALID_REQUEST}


def test_internal_topics_are_created_as_their_coordinators_need_them():
    broker = config(
        offsets_topic_num_partitions="7",
        offsets_topic_replication_factor="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        share_coordinator_state_topic_replication_factor="1",
    )
    names = ["__consumer_offsets", "__transaction_state", "__share_group_state", "plain"]
    decision = create(ONE_BROKER, *auto_create_request(names, broker, 1).topics, broker=broker)
    assert set(codes(decision.response).values()) == {ErrorCode.NONE}
    image = applied(ONE_BROKER, decision)
    assert len(image.topics["__consumer_offsets"].partitions) == 7
    assert image.topic_config("__consumer_offsets")["cleanup.policy"] == "compact"
    assert image.topic_config("__share_group_state")["cleanup.policy"] == "delete"
    assert image.topic_config("plain") == {}
    assert [t.is_internal for t in image.topics.values()] == [True, True, True, False]


def test_a_single_node_gets_internal_topics_with_one_replica_unless_told_otherwise():
    names = ["__consumer_offsets", "__transaction_state"]
    offsets, transactions = auto_create_request(names, config(), 1).topics
    assert (offsets.replication_factor, transactions.replication_factor) == (1, 1)
    assert {c.name: c.value for c in transactions.configs}["min.insync.replicas"] == "1"
    many = auto_create_request(names, config(), 5).topics
    assert [topic.replication_factor for topic in many] == [3, 3]
    told = config(offsets_topic_replication_factor="2")
    assert auto_create_request(names, told, 1).topics[0].replication_factor == 2


def test_the_defaults_of_a_single_node_allow_plain_topics():
    assert CONFIG["default.replication.factor"] == 1
