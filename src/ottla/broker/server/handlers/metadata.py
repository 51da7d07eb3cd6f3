"""Metadata: the brokers, the topics, and the leaders of their partitions.

Topics that do not exist are created if both the client and `auto.create.topics.enable` allow it.
That takes one commit of the metadata log, so the answer waits for it and contains the new topic,
instead of an error that would make the client ask again.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from ottla.broker.controller.names import name_problem
from ottla.broker.metadata.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.broker.server.context import BrokerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.envelopes.forwarding import ask_for_client
from ottla.broker.server.handlers._authorized_operations import (
    NOT_ASKED,
    authorized_operations,
    authorized_operations_on_cluster,
)
from ottla.broker.server.handlers._replicas import (
    controller_for_clients,
    offline_replicas,
    reachable_brokers,
    reachable_leader,
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
from ottla.runtime.pace import at_once, many_in_slices
from ottla.security.rights import Operation, ResourceType

TOPIC_IDS_FROM = 12
"""Versions 10 and 11 have the field, but no broker ever served it."""
CLUSTER_RIGHTS_UPTO = 10
AT_ONCE_MAX = 2_000
"""The most topics and partitions described at once. If there are more, they are described in
slices."""
STEPS_BETWEEN_CLOCK_LOOKS = 16


T = TypeVar("T")
_Steps = Generator[None, None, T]


def handle(
    context: BrokerContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Return an answer at once, or one that waits for topics to be created."""
    wanted = request.topics
    refused: dict[str, int] = {}
    if context.api_version == 0 and not wanted:
        # version 0 means all topics; later versions use null for all, and an empty list for none
        wanted = None
    if wanted is not None:
        if context.api_version < TOPIC_IDS_FROM and any(map(_uses_id, wanted)):
            return _refusal(wanted)
        if _may_create(context, request) and (missing := _missing(context, wanted)):
            refused = _not_creatable(context, missing)
            creatable = [
                name
                for name in missing
                if name not in refused and name != METADATA_TOPIC and not name_problem(name)
            ]
            if creatable:
                return _create_and_answer(context, request, wanted, creatable, refused)
    steps = _answer(context, request, wanted, refused)
    if _is_large(context.services.metadata.image, wanted):
        return many_in_slices(context.services.runtime, steps)
    return at_once(steps)


def _is_large(image: MetadataImage, wanted: list[MetadataRequestTopic] | None) -> bool:
    """True if the topics have many partitions in all: a few topics may have many."""
    if wanted is None:
        found: Iterable[TopicImage | None] = image.topics.values()
    else:
        by_name, by_id = image.topics, image.topics_by_id
        found = (by_name.get(topic.name or "") or by_id.get(topic.topic_id) for topic in wanted)
    left = AT_ONCE_MAX
    for topic in found:
        left -= 1 if topic is None else 1 + len(topic.partitions)
        if left < 0:
            return True
    return False


def _uses_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _refusal(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """Return the error for each topic: these versions have no field for an error of the whole
    request."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in wanted
        ]
    )


def _missing(context: BrokerContext, wanted: list[MetadataRequestTopic]) -> list[str]:
    """Return the names of topics that do not exist, each once, if the client may know that."""
    known = context.services.metadata.image.topics
    names = dict.fromkeys(topic.name for topic in wanted)
    return [
        name
        for name in names
        if name is not None
        and name not in known
        and context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True)
    ]


def _not_creatable(context: BrokerContext, names: list[str]) -> dict[str, int]:
    """Return the topics that the client may not create, with the error."""
    if context.may_on_cluster(Operation.CREATE, quiet=True):
        return {}
    return {
        name: int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name in names
        if not context.may(Operation.CREATE, ResourceType.TOPIC, name)
    }


def _may_create(context: BrokerContext, request: MetadataRequest) -> bool:
    # Before version 4 the client could not choose: the default of the field allows it.
    return (
        request.allow_auto_topic_creation and context.services.config["auto.create.topics.enable"]
    )


_UNTIL_LATER: Final = {
    int(ErrorCode.THROTTLING_QUOTA_EXCEEDED): int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
}
"""The answer to clients that do not expect an error of CreateTopics: they ask again."""


async def _create_and_answer(
    context: BrokerContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic],
    creatable: list[str],
    refused: dict[str, int],
) -> MetadataResponse:
    try:
        created = await context.services.requests.auto_create_topics(
            creatable, partial(ask_for_client, context)
        )
        refused |= {
            topic.name: _UNTIL_LATER.get(topic.error_code, topic.error_code)
            for topic in created.topics
            if topic.error_code
        }
    except KafkaError as error:
        refused |= dict.fromkeys(creatable, int(error.code))
    steps = _answer(context, request, wanted, refused)
    return await many_in_slices(context.services.runtime, steps)


def _answer(
    context: BrokerContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic] | None,
    refused: dict[str, int],
) -> Generator[None, None, MetadataResponse]:
    services = context.services
    image = services.metadata.image
    version = context.api_version
    listener = context.caller.listener_name
    describe = _Describer(context, image, with_rights=request.include_topic_authorized_operations)
    if wanted is None:
        topics = []
        for topic in image.topics.values():
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quiet=True):
                topics.append((yield from describe.topic(topic)))
            else:
                yield
    else:
        topics = yield from describe.wanted(wanted, refused)
    with_cluster_rights = (
        request.include_cluster_authorized_operations and version <= CLUSTER_RIGHTS_UPTO
    )
    return MetadataResponse(
        brokers=_brokers(image, listener),
        cluster_id=services.cluster_id,
        controller_id=controller_for_clients(services.node_id, reachable_brokers(image, listener)),
        topics=topics,
        cluster_authorized_operations=(
            authorized_operations_on_cluster(context) if with_cluster_rights else NOT_ASKED
        ),
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
    """Describes topics of one image for a client."""

    def __init__(self, context: BrokerContext, image: MetadataImage, *, with_rights: bool) -> None:
        listener, version = context.caller.listener_name, context.api_version
        self._context = context
        self._image = image
        self._reachable = reachable_brokers(image, listener)
        self._with_rights = with_rights
        # Version 0 leaves out unreachable replicas and reports that as an error. Clients know the
        # error for a leader without this listener only from version 6 on.
        self._reachable_only = version == 0
        self._no_listener = (
            ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        )
        self._kind = (listener, self._reachable_only, self._no_listener)

    def wanted(
        self, topics: Iterable[MetadataRequestTopic], refused: dict[str, int]
    ) -> _Steps[list[MetadataResponseTopic]]:
        by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
        seen: set[bytes | str] = set()
        told = []
        for topic in topics:
            key = topic.topic_id if by_id else topic.name or ""
            if key in seen or key == ZERO_UUID:
                continue
            seen.add(key)
            if by_id:
                told.append((yield from self._by_id(topic.topic_id)))
            else:
                told.append((yield from self._by_name(topic.name or "", refused)))
        return told

    def _by_id(self, topic_id: bytes) -> _Steps[MetadataResponseTopic]:
        topic = self._image.topics_by_id.get(topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            if self._may_describe(topic.name):
                return (yield from self.topic(topic))
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)

    def _by_name(self, name: str, refused: dict[str, int]) -> _Steps[MetadataResponseTopic]:
        if not self._may_describe(name):
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                name=name,
                topic_authorized_operations=NOT_ASKED,
            )
        topic = self._image.topics.get(name)
        if topic is not None:
            return (yield from self.topic(topic))
        code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name_problem(name):
            code = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        return MetadataResponseTopic(
            error_code=refused.get(name, code),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._rights(name),
        )

    def _may_describe(self, name: str) -> bool:
        return self._context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def _rights(self, name: str) -> int:
        if not self._with_rights:
            return NOT_ASKED
        return authorized_operations(self._context, ResourceType.TOPIC, name)

    def topic(self, topic: TopicImage) -> _Steps[MetadataResponseTopic]:
        # Clients ask again and again while nothing changes, so the description is kept with the
        # topic. It is valid as long as the brokers are the same too.
        brokers, told = topic.derived.get(self._kind, (None, None))
        yield
        if brokers is not self._image.brokers or told is None:
            partitions = []
            for partition in topic.partitions.values():
                partitions.append(self._partition(partition))
                yield
            told = MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=partitions,
                topic_authorized_operations=NOT_ASKED,
            )
            topic.derived[self._kind] = (self._image.brokers, told)
        if not self._with_rights:
            return told  # type: ignore[no-any-return]
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=told.partitions,
            topic_authorized_operations=self._rights(topic.name),
        )

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


HANDLER = Handler(on_broker=handle)
