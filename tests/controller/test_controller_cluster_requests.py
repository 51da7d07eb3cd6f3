"""Folders of replicas, features and producer ids."""

from __future__ import annotations

from typing import Any

import pytest
from controller_cases import (
    CONFIG,
    ONE_BROKER,
    applied,
    cluster,
    partition_of,
    placed,
    registered,
    registration,
    unfenced,
)

from ottla.broker.controller.feature_levels import update_features
from ottla.broker.controller.producer_ids import BLOCK_SIZE, allocate_producer_ids
from ottla.broker.controller.replica_folders import assign_replicas
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

FIRST, SECOND = b"1" * 16, b"2" * 16


# Folders


def two_brokers() -> MetadataImage:
    image = registered(cluster(2), registration(1, directories=(FIRST, SECOND)))
    return placed(unfenced(image, 1), 1, 2)


def assign(
    image: MetadataImage,
    folder: bytes,
    *,
    broker: int = 1,
    index: int = 0,
    topic_id: bytes | None = None,
) -> tuple[MetadataImage, ErrorCode]:
    topic = RequestTopicData(
        topic_id=topic_id or image.topics["t"].id,
        partitions=[RequestPartitionData(partition_index=index)],
    )
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=image.brokers[broker].epoch,
        directories=[RequestDirectoryData(id=folder, topics=[topic])],
    )
    decision = assign_replicas(image, request, elections_by_topic(image, CONFIG))
    answer = decision.response.directories[0].topics[0].partitions[0]
    return applied(image, decision), ErrorCode(answer.error_code)


def test_the_folder_of_a_replica_is_noted_and_said_again_costs_nothing():
    image, code = assign(two_brokers(), SECOND)
    assert code is ErrorCode.NONE
    partition = partition_of(image)
    assert partition.directories[0] == SECOND
    assert (partition.leader, partition.leader_epoch) == (1, 0)
    again, _ = assign(image, SECOND)
    assert again.topics == image.topics


def test_a_replica_in_a_folder_that_does_not_work_is_out_of_sync():
    partition = partition_of(assign(two_brokers(), b"offline folder..")[0])
    assert (partition.leader, partition.isr) == (2, (2,))


def test_a_replica_that_moved_to_a_working_folder_can_lead_again():
    image = unfenced(registered(MetadataImage(cluster_id="test"), registration(1)), 1)
    image = placed(image, 1)
    image = registered(image, registration(1, incarnation=2, directories=(SECOND,)))
    image = unfenced(image, 1)
    assert partition_of(image).leader == -1
    assert partition_of(assign(image, SECOND)[0]).leader == 1


def test_folders_of_what_is_not_there_are_refused():
    image = two_brokers()
    assert assign(image, FIRST, topic_id=b"?" * 16)[1] is ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(image, FIRST, index=3)[1] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    image = unfenced(registered(image, registration(3)), 3)
    assert assign(image, FIRST, broker=3)[1] is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Features


def update(image: MetadataImage, **fields: Any) -> MetadataImage:
    validate_only = fields.pop("validate_only", False)
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(**fields)], validate_only=validate_only
    )
    return applied(image, update_features(image, request))


def test_a_feature_goes_down_only_when_that_is_meant_and_up_again():
    image = update(ONE_BROKER, feature="transaction.version", max_version_level=1, upgrade_type=2)
    assert image.features["transaction.version"] == 1
    image = update(image, feature="transaction.version", max_version_level=2)
    assert image.features["transaction.version"] == 2
    off = update(image, feature="transaction.version", max_version_level=0, upgrade_type=3)
    assert "transaction.version" not in off.features


def test_validation_changes_nothing():
    image = update(
        ONE_BROKER,
        feature="transaction.version",
        max_version_level=1,
        upgrade_type=2,
        validate_only=True,
    )
    assert image.features == ONE_BROKER.features


@pytest.mark.parametrize(
    "fields",
    [
        {"feature": "transaction.version", "max_version_level": 1},
        {"feature": "transaction.version", "max_version_level": 3},
        {"feature": "transaction.version", "max_version_level": -1, "upgrade_type": 2},
        {"feature": "transaction.version", "max_version_level": 1, "upgrade_type": 9},
        {"feature": "metadata.version", "max_version_level": 29, "upgrade_type": 2},
        {"feature": "metadata.version", "max_version_level": 0, "upgrade_type": 3},
        {"feature": "nonsense", "max_version_level": 1},
    ],
)
def test_levels_that_cannot_be_are_refused(fields: dict[str, Any]):
    with pytest.raises(KafkaError) as refused:
        update(ONE_BROKER, **fields)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_every_broker_has_to_support_a_level():
    old = registration(2)
    old.features[1].max_supported_version = 1
    image = update(ONE_BROKER, feature="transaction.version", max_version_level=1, upgrade_type=2)
    image = registered(image, old)
    with pytest.raises(KafkaError, match="Broker 2 only supports versions 0-1"):
        update(image, feature="transaction.version", max_version_level=2)


def test_a_feature_that_ottla_does_not_have_is_refused_in_kafkas_words():
    words = (
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 1 for feature share.version. Local controller -1 does not support this "
        "feature."
    )
    with pytest.raises(KafkaError, match=words):
        update(ONE_BROKER, feature="share.version", max_version_level=1)


def test_the_quorums_own_version_stays_as_it_was_formatted():
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[key])
    assert update_features(ONE_BROKER, request, kraft_version=1).records == []
    with pytest.raises(KafkaError, match="only when the folders of a new cluster are formatted"):
        update_features(ONE_BROKER, request, kraft_version=0)


# Producer ids


def test_producer_ids_come_in_blocks_that_never_overlap():
    image, seen = cluster(1, 2), set()
    for broker in (1, 2, 1):
        request = AllocateProducerIdsRequest(
            broker_id=broker, broker_epoch=image.brokers[broker].epoch
        )
        decision = allocate_producer_ids(image, request)
        first, size = decision.response.producer_id_start, decision.response.producer_id_len
        block = set(range(first, first + size))
        assert size == BLOCK_SIZE
        assert not seen & block
        seen |= block
        image = applied(image, decision)
    assert min(seen) == 0


def test_a_stale_broker_gets_no_producer_ids():
    with pytest.raises(KafkaError) as refused:
        allocate_producer_ids(ONE_BROKER, AllocateProducerIdsRequest(broker_id=1, broker_epoch=0))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_end_at_the_largest_number():
    image = MetadataImage(next_producer_id=2**63 - 500, brokers=ONE_BROKER.brokers)
    epoch = ONE_BROKER.brokers[1].epoch
    with pytest.raises(KafkaError):
        allocate_producer_ids(image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
