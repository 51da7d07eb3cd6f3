"""Adds partitions to existing topics."""

from __future__ import annotations

from random import Random

from ottla.broker.controller.assignments import check_manual, new_partitions
from ottla.broker.controller.limits import (
    Charge,
    check_partitions,
    repeated,
    told_message,
    unlimited,
)
from ottla.broker.controller.placement import place, usable_brokers
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.schema import Message


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    random: Random,
    charge: Charge = unlimited,
) -> Decision[CreatePartitionsResponse]:
    """Create partitions. Each topic grows or fails by itself; a request that is too large fails as
    a whole."""
    check_partitions(sum(_partitions_wanted(image, topic) for topic in request.topics))
    twice = repeated(topic.name for topic in request.topics)
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = [_result(name, duplicate) for name in sorted(twice)]
    records: list[Message] = []
    for wanted in request.topics:
        if wanted.name in twice:
            continue
        try:
            new_records = _grow(image, wanted, random)
            charge(_partitions_wanted(image, wanted))
            records += new_records
            results.append(CreatePartitionsTopicResult(name=wanted.name))
        except KafkaError as error:
            results.append(_result(wanted.name, error))
    response = CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _result(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=told_message(error)
    )


def _partitions_wanted(image: MetadataImage, wanted: CreatePartitionsTopic) -> int:
    topic = image.topics.get(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))


def _grow(image: MetadataImage, wanted: CreatePartitionsTopic, random: Random) -> list[Message]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_count(topic, wanted.count)
    have = len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    manual = wanted.assignments is not None
    if wanted.assignments is not None:
        _check_assignment_count(wanted.count - have, len(wanted.assignments))
        for assignment in wanted.assignments:
            check_manual(image, assignment.broker_ids, factor)
        chosen = [tuple(assignment.broker_ids) for assignment in wanted.assignments]
    else:
        chosen = place(usable_brokers(image), wanted.count - have, factor, random)
    return new_partitions(image, topic.id, have, chosen, manual=manual)


def _check_count(topic: TopicImage, count: int) -> None:
    have = len(topic.partitions)
    if count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if count < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {count} would not be an "
            "increase.",
        )


def _check_assignment_count(additional: int, given: int) -> None:
    if given != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but {given} assignment(s) "
            "were specified.",
        )
