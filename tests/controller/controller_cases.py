"""Images and requests that many tests start from."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from ottla.broker.controller.broker_states import fence, unfence
from ottla.broker.controller.registration import register_broker, take_in
from ottla.broker.controller.topics.create_topics import create_topics
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.features import FEATURES
from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

T = TypeVar("T")

CONFIG = BrokerConfig.parse({})


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.parse({key.replace("_", "."): value for key, value in settings.items()})


def applied(image: MetadataImage, decision: Decision[T]) -> MetadataImage:
    return image.apply(decision.records, image.offset + len(decision.records), 1)


def registration(
    broker_id: int = 1,
    *,
    incarnation: int = 1,
    rack: str | None = None,
    directories: tuple[bytes, ...] = (),
    previous_epoch: int = -1,
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id="test",
        incarnation_id=incarnation.to_bytes(16, "big"),
        listeners=[Listener(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
        features=[
            Feature(name=f.name, min_supported_version=f.lowest, max_supported_version=f.level)
            for f in FEATURES
        ],
        rack=rack,
        log_dirs=list(directories or (folder(broker_id),)),
        previous_broker_epoch=previous_epoch,
    )


def folder(broker_id: int) -> bytes:
    return b"folder of br%4d" % broker_id


def registered(
    image: MetadataImage, request: BrokerRegistrationRequest, *, is_alive: bool = False
) -> MetadataImage:
    """With the broker, still fenced."""
    elections = elections_by_topic(image, CONFIG)
    return applied(image, register_broker(image, request, elections, is_alive=is_alive))


def unfenced(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    for broker_id in broker_ids:
        records = unfence(image, image.brokers[broker_id], elections_by_topic(image, CONFIG))
        image = applied(image, Decision(records, None))
    return image


def fenced(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    for broker_id in broker_ids:
        records = fence(image, image.brokers[broker_id], elections_by_topic(image, CONFIG))
        image = applied(image, Decision(records, None))
    return image


def started(image: MetadataImage, request: BrokerRegistrationRequest) -> MetadataImage:
    """As the broker that lives with the only controller starts."""
    return applied(image, take_in(image, request, elections_by_topic(image, CONFIG)))


def cluster(*broker_ids: int) -> MetadataImage:
    image = MetadataImage(cluster_id="test")
    for broker_id in broker_ids:
        image = unfenced(registered(image, registration(broker_id)), broker_id)
    return image


def partition_of(image: MetadataImage, index: int = 0, name: str = "t") -> PartitionImage:
    return image.topics[name].partitions[index]


ONE_BROKER = cluster(1)


def placed(image: MetadataImage, *replicas: int, name: str = "t", **configs: str) -> MetadataImage:
    """With a topic of one partition on these brokers, the first of which leads it."""
    wanted = topic(name, -1, -1, **configs)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    return with_topics(image, wanted)


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def create(
    image: MetadataImage,
    *topics: CreatableTopic,
    validate_only: bool = False,
    broker: BrokerConfig = CONFIG,
) -> Decision[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return create_topics(image, request, broker, Random(7 + image.offset))


def with_topics(image: MetadataImage, *topics: CreatableTopic) -> MetadataImage:
    decision = create(image, *topics)
    assert [t.error_code for t in decision.response.topics] == [0] * len(topics)
    return applied(image, decision)


def codes(response: CreateTopicsResponse) -> dict[str, ErrorCode]:
    return {result.name: ErrorCode.of(result.error_code) for result in response.topics}
