"""Creates topics: makes all of Kafka's checks, chooses replicas, writes the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from ottla.broker.controller.assignments import check_manual, new_partitions
from ottla.broker.controller.limits import (
    Charge,
    check_partitions,
    repeated,
    told_message,
    unlimited,
)
from ottla.broker.controller.names import check_name, check_no_collision
from ottla.broker.controller.placement import place, usable_brokers
from ottla.broker.metadata.changes import unified_name
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import METADATA_TOPIC, MetadataImage
from ottla.broker.metadata.resources import ResourceType
from ottla.config.broker import BrokerConfig
from ottla.config.describe import describe_topic
from ottla.config.errors import ConfigError
from ottla.config.topic import validate_topic_overrides
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.topic_record import TopicRecord
from ottla.protocol.schema import Message
from ottla.protocol.uuids import random_uuid

DEFAULT = -1


class _Layout(NamedTuple):
    """The replicas of each partition, and whether the client chose them."""

    partitions: Sequence[Sequence[int]]
    manual: bool


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    config: BrokerConfig,
    random: Random,
    charge: Charge = unlimited,
) -> Decision[CreateTopicsResponse]:
    """Create topics. Each one succeeds or fails by itself; a request that is too large fails as a
    whole."""
    check_partitions(sum(_partitions_wanted(topic, config) for topic in request.topics))
    twice = repeated(topic.name for topic in request.topics)
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    created: dict[str, str] = {}
    describe = _ConfigDescriber(config)
    for topic in request.topics:
        if topic.name in twice:
            continue
        try:
            _check_new(topic.name, image, created)
            new_records, result = _create(image, topic, config, random, describe)
            charge(result.num_partitions)
        except KafkaError as error:
            results.append(failed(topic.name, error))
            continue
        created[unified_name(topic.name) or topic.name] = topic.name
        records += new_records
        results.append(result)
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results += [failed(name, duplicate) for name in sorted(twice)]
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=told_message(error))


def _partitions_wanted(topic: CreatableTopic, config: BrokerConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == DEFAULT:
        return int(config["num.partitions"])
    return max(0, topic.num_partitions)


def _check_new(name: str, image: MetadataImage, created: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    check_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_no_collision(name, image, created)


def _create(
    image: MetadataImage,
    topic: CreatableTopic,
    config: BrokerConfig,
    random: Random,
    describe: _ConfigDescriber,
) -> tuple[list[Message], CreatableTopicResult]:
    overrides = _overrides(topic, config)
    layout = (
        _manual(image, topic) if topic.assignments else _automatic(image, topic, config, random)
    )
    topic_id = random_uuid(random)
    # Configs come before partitions: they must be known when the logs are created.
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, name=key, value=value
        )
        for key, value in overrides.items()
    ]
    records += new_partitions(image, topic_id, 0, layout.partitions, manual=layout.manual)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(layout.partitions),
        replication_factor=len(layout.partitions[0]),
        configs=describe(overrides),
    )
    return records, result


def _overrides(topic: CreatableTopic, config: BrokerConfig) -> dict[str, str]:
    null = [entry.name for entry in topic.configs if entry.value is None]
    if null:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(null)}",
        )
    overrides = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    try:
        validate_topic_overrides(overrides, config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return overrides


class _ConfigDescriber:
    """Describes the configs of new topics; once for topics of a request with the same configs, as
    most have."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def __call__(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(overrides.items())
        if key not in self._known:
            self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in describe_topic(overrides, self._config)
            ]
        return self._known[key]


def _manual(image: MetadataImage, topic: CreatableTopic) -> _Layout:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions or replication factor "
            f"was not set to -1: {topic.num_partitions}, {topic.replication_factor}.",
        )
    chosen: dict[int, list[int]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in chosen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Found multiple manual partition assignments for partition "
                f"{assignment.partition_index}",
            )
        check_manual(image, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        chosen[assignment.partition_index] = assignment.broker_ids
    if sorted(chosen) != list(range(len(chosen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return _Layout([chosen[index] for index in range(len(chosen))], manual=True)


def _automatic(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig, random: Random
) -> _Layout:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0, or -1 to use the default value: {factor}.",
        )
    if count < DEFAULT or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid non-positive value: {count}.",
        )
    if factor == DEFAULT:
        factor = config["default.replication.factor"]
    if count == DEFAULT:
        count = config["num.partitions"]
    return _Layout(place(usable_brokers(image), count, factor, random), manual=False)
