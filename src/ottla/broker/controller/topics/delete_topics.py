"""Deletes topics, by name or by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.controller.limits import Charge, repeated, told_message, unlimited
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.schema import Message
from ottla.protocol.uuids import ZERO_UUID


class WantedTopic(NamedTuple):
    name: str | None
    id: bytes


def delete_topics(
    image: MetadataImage, request: DeleteTopicsRequest, charge: Charge = unlimited
) -> Decision[DeleteTopicsResponse]:
    """Delete topics. Each one is deleted or fails by itself; one that is named twice is not
    deleted."""
    wanted = list(wanted_topics(request))
    twice = repeated(wanted)
    records: list[Message] = []
    results: list[DeletableTopicResult] = []
    done: set[bytes] = set()
    for item in dict.fromkeys(wanted):
        try:
            topic = _find(image, item, twice)
            if topic.id in done:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            charge(len(topic.partitions))
        except KafkaError as error:
            results.append(failed(item, error))
            continue
        done.add(topic.id)
        records.append(RemoveTopicRecord(topic_id=topic.id))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return Decision(records, DeleteTopicsResponse(responses=results))


def refuse_all(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Return the response if no topic may be deleted."""
    results = [failed(item, error) for item in dict.fromkeys(wanted_topics(request))]
    return DeleteTopicsResponse(responses=results)


def wanted_topics(request: DeleteTopicsRequest) -> Iterator[WantedTopic]:
    """Yield the topics. Old versions have a list of names, newer ones pairs of name and id, one of
    them empty."""
    for name in request.topic_names:
        yield WantedTopic(name, ZERO_UUID)
    for topic in request.topics:
        yield WantedTopic(topic.name, topic.topic_id)


def failed(wanted: WantedTopic, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.id,
        error_code=error.code,
        error_message=told_message(error),
    )


def _find(image: MetadataImage, wanted: WantedTopic, twice: set[WantedTopic]) -> TopicImage:
    if wanted.name is None and wanted.id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if wanted.name is not None and wanted.id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if wanted in twice:
        what = "id" if wanted.name is None else "name"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if wanted.name is None:
        topic = image.topics_by_id.get(wanted.id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics.get(wanted.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise KafkaError(unknown)
    return topic
