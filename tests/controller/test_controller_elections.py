"""Elections by hand and by time."""

from __future__ import annotations

import pytest
from controller_cases import (
    CONFIG,
    applied,
    cluster,
    config,
    fenced,
    partition_of,
    placed,
    topic,
    unfenced,
    with_topics,
)

from ottla.broker.controller.elect_leaders import (
    ELECTIONS_AT_ONCE_MAX,
    balance_leaders,
    elect_leaderless,
    elect_leaders,
)
from ottla.broker.controller.partition_change import Target, change_partition
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
IMAGE = placed(cluster(1, 2, 3), 1, 2, 3)


def elect(image: MetadataImage, kind: int, name: str = "t") -> tuple[MetadataImage, ErrorCode]:
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=[TopicPartitions(topic=name, partitions=[0])]
    )
    decision = elect_leaders(image, request)
    result = decision.response.replica_election_results[0].partition_result[0]
    return applied(image, decision), ErrorCode(result.error_code)


def all_in_sync(image: MetadataImage) -> MetadataImage:
    records = []
    for found in image.topics.values():
        for partition in found.partitions.values():
            target = Target.of(partition)._replace(isr=partition.replicas)
            record = change_partition(found.id, partition, image.brokers, target)
            records += [] if record is None else [record]
    return image.apply(records, image.offset + len(records), 1)


def test_the_preferred_leader_leads_again_when_it_is_asked_for_and_in_sync():
    image = unfenced(fenced(IMAGE, 1), 1)
    assert partition_of(image).leader == 2
    assert elect(image, PREFERRED)[1] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    image, code = elect(all_in_sync(image), PREFERRED)
    assert code is ErrorCode.NONE
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 2)
    assert elect(image, PREFERRED)[1] is ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_loses_data_only_when_it_is_asked_for():
    image = unfenced(fenced(IMAGE, 2, 3, 1), 2)
    assert partition_of(image).leader == -1
    image, code = elect(image, UNCLEAN)
    assert code is ErrorCode.NONE
    partition = partition_of(image)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)
    assert elect(image, UNCLEAN)[1] is ErrorCode.ELECTION_NOT_NEEDED


def test_without_a_live_replica_nobody_is_elected():
    image = fenced(IMAGE, 1, 2, 3)
    assert elect(image, UNCLEAN)[1] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert elect(image, PREFERRED)[1] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(image, UNCLEAN, "?")[1] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_kind_of_election_is_refused():
    with pytest.raises(KafkaError) as refused:
        elect_leaders(IMAGE, ElectLeadersRequest(election_type=2))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_election_of_all_tells_only_what_was_needed():
    image = placed(all_in_sync(unfenced(fenced(IMAGE, 1), 1)), 3, name="fine")
    decision = elect_leaders(image, ElectLeadersRequest(topic_partitions=None))
    told = decision.response.replica_election_results
    assert [(t.topic, [p.error_code for p in t.partition_result]) for t in told] == [("t", [0])]
    assert partition_of(applied(image, decision)).leader == 1


def test_leaders_are_balanced_in_portions():
    image = with_topics(cluster(1, 2, 3), topic("t", ELECTIONS_AT_ONCE_MAX * 2, 3))
    image = all_in_sync(unfenced(fenced(image, 1), 1))
    rounds, more = 0, True
    while more:
        decision = balance_leaders(image)
        assert len(decision.records) <= ELECTIONS_AT_ONCE_MAX
        image, more, rounds = applied(image, decision), decision.response, rounds + 1
    partitions = image.topics["t"].partitions.values()
    assert all(partition.leader == partition.replicas[0] for partition in partitions)
    assert balance_leaders(image).records == []
    assert rounds <= 3


def test_a_preferred_leader_that_is_not_in_sync_is_left_in_peace():
    assert balance_leaders(unfenced(fenced(IMAGE, 1), 1)).records == []


def test_partitions_without_leader_get_one_as_soon_as_loss_is_allowed():
    image = unfenced(fenced(IMAGE, 2, 3, 1), 3)
    assert elect_leaderless(image, elections_by_topic(image, CONFIG)).records == []
    lenient = config(unclean_leader_election_enable="true")
    decision = elect_leaderless(image, elections_by_topic(image, lenient))
    assert partition_of(applied(image, decision)).leader == 3


def test_what_a_topic_says_wins_over_the_broker():
    image = placed(cluster(1, 2), 1, 2, unclean_leader_election_enable="false")
    image = unfenced(fenced(image, 2, 1), 2)
    lenient = config(unclean_leader_election_enable="true")
    assert elect_leaderless(image, elections_by_topic(image, lenient)).records == []
