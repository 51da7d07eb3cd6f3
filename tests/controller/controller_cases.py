"""Images and requests that many tests start from."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from ottla.config.broker import BrokerConfig
from ottla.controller.brokers import Registration, register_broker
from ottla.controller.create_topics import create_topics
from ottla.metadata.decision import Decision
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
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
    broker_id: int = 1, *, rack: str | None = None, directories: tuple[bytes, ...] = ()
) -> Registration:
    folder = bytes([broker_id]) * 16
    endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092)
    return Registration(broker_id, bytes(16), [endpoint], rack, directories or (folder,))


def cluster(*broker_ids: int) -> MetadataImage:
    image = MetadataImage(cluster_id="test")
    for broker_id in broker_ids:
        image = applied(image, register_broker(image, registration(broker_id), clean=True))
    return image


ONE_BROKER = cluster(1)


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
    return create_topics(image, request, broker, Random(7))


def with_topics(image: MetadataImage, *topics: CreatableTopic) -> MetadataImage:
    decision = create(image, *topics)
    assert [t.error_code for t in decision.response.topics] == [0] * len(topics)
    return applied(image, decision)


def codes(response: CreateTopicsResponse) -> dict[str, ErrorCode]:
    return {result.name: ErrorCode(result.error_code) for result in response.topics}
