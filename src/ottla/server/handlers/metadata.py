"""Metadata: who is in the cluster, which topics there are, who leads their partitions.

Topics that a client asks for before they exist are created where both the client and
`auto.create.topics.enable` allow it. Creation takes one commit of the metadata log, so the answer
waits for it and has the new topic, instead of an error that sends the client round again.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from ottla.controller.names import name_problem
from ottla.metadata.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.uuids import ZERO_UUID
from ottla.server.context import RequestContext
from ottla.server.handlers._replicas import (
    controller_for_clients,
    offline_replicas,
    reachable_brokers,
    reachable_leader,
)
from ottla.server.handlers._rights import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_ASKED

TOPIC_IDS_FROM = 12
"""Versions 10 and 11 have the field, but no broker ever served it."""
CLUSTER_RIGHTS_UPTO = 10


def handle(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """An answer at once, or one that waits for topics to be created."""
    wanted = request.topics
    if context.api_version == 0 and not wanted:
        wanted = None  # all of them: later versions say so by null, and mean none by an empty list
    if wanted is not None:
        if context.api_version < TOPIC_IDS_FROM and any(map(_uses_id, wanted)):
            return _refusal(wanted)
        if _may_create(context, request) and (missing := _missing(context, wanted)):
            return _create_and_answer(context, request, wanted, missing)
    return _answer(context, request, wanted, {})


def _uses_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _refusal(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """These versions have no place for an error of the whole request: each topic carries it."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in wanted
        ]
    )


def _missing(context: RequestContext, wanted: list[MetadataRequestTopic]) -> list[str]:
    """The topics to create, each once."""
    known = context.node.metadata.image.topics
    names = dict.fromkeys(topic.name for topic in wanted)
    return [
        name
        for name in names
        if name is not None
        and name not in known
        and name != METADATA_TOPIC
        and not name_problem(name)
    ]


def _may_create(context: RequestContext, request: MetadataRequest) -> bool:
    # Before version 4 the client had no say, which the default of the field expresses.
    return request.allow_auto_topic_creation and context.node.config["auto.create.topics.enable"]


async def _create_and_answer(
    context: RequestContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic],
    missing: list[str],
) -> MetadataResponse:
    refused: dict[str, int] = {}
    try:
        created = await context.node.requests.auto_create_topics(missing)
        refused = {topic.name: topic.error_code for topic in created.topics if topic.error_code}
    except KafkaError as error:
        refused = dict.fromkeys(missing, int(error.code))
    return _answer(context, request, wanted, refused)


def _answer(
    context: RequestContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic] | None,
    refused: dict[str, int],
) -> MetadataResponse:
    node = context.node
    image = node.metadata.image
    version = context.api_version
    listener = context.connection.listener_name
    rights = ALL_ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    describe = _Describer(image, listener, version, rights)
    if wanted is None:
        topics = [describe.topic(topic) for topic in image.topics.values()]
    else:
        topics = list(describe.wanted(wanted, refused))
    with_cluster_rights = (
        request.include_cluster_authorized_operations and version <= CLUSTER_RIGHTS_UPTO
    )
    return MetadataResponse(
        brokers=_brokers(image, listener),
        cluster_id=node.cluster_id,
        controller_id=controller_for_clients(node, reachable_brokers(image, listener)),
        topics=topics,
        cluster_authorized_operations=ALL_ON_CLUSTER if with_cluster_rights else NOT_ASKED,
    )


def _brokers(image: MetadataImage, listener: str) -> list[MetadataResponseBroker]:
    key = ("metadata brokers", listener)
    brokers: list[MetadataResponseBroker] | None = image.derived.get(key)
    if brokers is None:
        brokers = image.derived[key] = [
            MetadataResponseBroker(
                node_id=broker.id,
                host=broker.endpoints[listener].host,
                port=broker.endpoints[listener].port,
                rack=broker.rack,
            )
            for broker in reachable_brokers(image, listener).values()
        ]
    return brokers


class _Describer:
    """Topics of one image as a client on one listener and version sees them."""

    def __init__(self, image: MetadataImage, listener: str, version: int, rights: int) -> None:
        self._image = image
        self._reachable = reachable_brokers(image, listener)
        self._rights = rights
        # Version 0 leaves unreachable replicas out and calls that an error; only from version 6 on
        # clients know the error for a leader that has no such listener.
        self._reachable_only = version == 0
        self._no_listener = (
            ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        )
        self._kind = (listener, self._reachable_only, self._no_listener, rights)

    def wanted(
        self, topics: Iterable[MetadataRequestTopic], refused: dict[str, int]
    ) -> Iterable[MetadataResponseTopic]:
        by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
        seen: set[bytes | str] = set()
        for topic in topics:
            key = topic.topic_id if by_id else topic.name or ""
            if key in seen or key == ZERO_UUID:
                continue
            seen.add(key)
            if by_id:
                yield self._by_id(topic.topic_id)
            else:
                yield self._by_name(topic.name or "", refused)

    def _by_id(self, topic_id: bytes) -> MetadataResponseTopic:
        topic = self._image.topics_by_id.get(topic_id)
        if topic is not None:
            return self.topic(topic)
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
        )

    def _by_name(self, name: str, refused: dict[str, int]) -> MetadataResponseTopic:
        topic = self._image.topics.get(name)
        if topic is not None:
            return self.topic(topic)
        code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name_problem(name):
            code = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        return MetadataResponseTopic(
            error_code=refused.get(name, code),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._rights,
        )

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        # Clients ask again and again while nothing changes, so the answer is kept with the topic;
        # it is good for as long as the brokers are the same too.
        brokers, told = topic.derived.get(self._kind, (None, None))
        if brokers is not self._image.brokers or told is None:
            told = MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=[self._partition(p) for p in topic.partitions.values()],
                topic_authorized_operations=self._rights,
            )
            topic.derived[self._kind] = (self._image.brokers, told)
        return told  # type: ignore[no-any-return]

    def _partition(self, partition: PartitionImage) -> MetadataResponsePartition:
        leader = reachable_leader(partition, self._reachable)
        replicas, isr = list(partition.replicas), list(partition.isr)
        error = ErrorCode.NONE
        if self._reachable_only:
            replicas, isr = self._filter(replicas), self._filter(isr)
        if leader == NO_LEADER:
            known = partition.leader in self._image.brokers
            error = self._no_listener if known else ErrorCode.LEADER_NOT_AVAILABLE
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=partition.index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline_replicas(partition, self._reachable),
        )

    def _filter(self, replicas: list[int]) -> list[int]:
        return [replica for replica in replicas if replica in self._reachable]
