"""Deleting topics and adding partitions."""

from __future__ import annotations

from random import Random

import pytest
from controller_cases import ONE_BROKER, applied, cluster, topic, with_topics

from ottla.broker.controller.topics.create_partitions import create_partitions
from ottla.broker.controller.topics.delete_topics import delete_topics
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.uuids import ZERO_UUID

IMAGE = with_topics(ONE_BROKER, topic("a", 2, retention_ms="5"), topic("b"), topic("c.d"))


def by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names))


def states(*wanted: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=n, topic_id=i) for n, i in wanted])


def test_deleting_by_name_removes_the_topic_its_configs_and_its_claim_on_similar_names():
    decision = delete_topics(IMAGE, by_name("a", "c.d"))
    after = applied(IMAGE, decision)
    assert list(after.topics) == ["b"]
    assert len(after.topics_by_id) == 1
    assert after.topic_config("a") == {}
    assert list(with_topics(after, topic("c_d")).topics) == ["b", "c_d"]
    assert [(r.name, r.error_code) for r in decision.response.responses] == [("a", 0), ("c.d", 0)]


def test_deleting_by_id_answers_with_name_and_id():
    topic_id = IMAGE.topics["a"].id
    decision = delete_topics(IMAGE, states((None, topic_id)))
    (result,) = decision.response.responses
    assert (result.name, result.topic_id, result.error_code) == ("a", topic_id, 0)
    assert "a" not in applied(IMAGE, decision).topics


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (by_name("missing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (states((None, b"?" * 16)), ErrorCode.UNKNOWN_TOPIC_ID),
        (states((None, ZERO_UUID)), ErrorCode.INVALID_REQUEST),
        (states(("a", b"?" * 16)), ErrorCode.INVALID_REQUEST),
        (by_name("a", "a"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_deleted_says_why(request_: DeleteTopicsRequest, code: ErrorCode):
    decision = delete_topics(IMAGE, request_)
    assert [r.error_code for r in decision.response.responses] == [code]
    assert decision.records == []


def test_a_topic_named_and_given_by_id_is_deleted_once_and_told_so():
    decision = delete_topics(IMAGE, states((None, IMAGE.topics["a"].id), ("a", ZERO_UUID)))
    assert [r.error_code for r in decision.response.responses] == [0, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


def test_one_failed_deletion_does_not_keep_others():
    decision = delete_topics(IMAGE, by_name("missing", "b"))
    assert "b" not in applied(IMAGE, decision).topics


def grow(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    validate_only: bool = False,
):
    wanted = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )
    request = CreatePartitionsRequest(topics=[wanted], validate_only=validate_only)
    return create_partitions(image, request, Random(3))


def test_a_topic_grows_and_its_old_partitions_stay_as_they_are():
    after = applied(IMAGE, grow(IMAGE, "a", 5))
    assert list(after.topics["a"].partitions) == [0, 1, 2, 3, 4]
    assert after.topics["a"].partitions[0] is IMAGE.topics["a"].partitions[0]
    assert list(IMAGE.topics["a"].partitions) == [0, 1]


def test_new_partitions_go_where_the_assignment_says():
    image = with_topics(cluster(1, 2, 3), topic("t", 1, 2))
    after = applied(image, grow(image, "t", 3, [[2, 3], [3, 1]]))
    assert [p.replicas for p in after.topics["t"].partitions.values()][1:] == [(2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("missing", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("a", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_impossible_growth_is_refused(
    name: str, count: int, assignments: list[list[int]] | None, code: ErrorCode
):
    decision = grow(IMAGE, name, count, assignments)
    assert [r.error_code for r in decision.response.results] == [code]
    assert decision.records == []


def test_validate_only_growth_changes_nothing():
    decision = grow(IMAGE, "a", 5, validate_only=True)
    assert [r.error_code for r in decision.response.results] == [0]
    assert decision.records == []


def test_growth_by_billions_is_refused_at_once():
    with pytest.raises(KafkaError) as refused:
        grow(IMAGE, "a", 2**31 - 1)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_a_topic_given_twice_does_not_grow():
    wanted = [CreatePartitionsTopic(name="a", count=n, assignments=None) for n in (3, 4)]
    decision = create_partitions(IMAGE, CreatePartitionsRequest(topics=wanted), Random(3))
    assert [r.error_code for r in decision.response.results] == [ErrorCode.INVALID_REQUEST]
    assert decision.records == []
