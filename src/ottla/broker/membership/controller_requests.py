"""This broker's own requests to the controller, apart from those of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from ottla.broker.controller.topics.auto_topics import auto_create_request
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.create_topics import CreateTopicsResponse
from ottla.protocol.schema import Message
from ottla.runtime.runtime import Runtime

log = get_logger("ottla.node")

TOPIC_SEEN_S_MAX: Final = 2.0
"""How long to wait until a new topic is known here too; clients then ask again."""
ASSIGNMENTS_PER_REQUEST_MAX: Final = 2_250
"""The most that Kafka's controllers accept at once."""
RETRY_S: Final = 1.0
TRIES_MAX: Final = 30

Ask = Callable[[Message], Awaitable[Any]]
Replica = tuple[bytes, int]
"""(topic id, partition)"""


class Metadata(Protocol):
    @property
    def image(self) -> MetadataImage: ...

    def subscribe(self, subscriber: Callable[[MetadataDelta, MetadataImage], object]) -> None: ...


class HostedReplica(Protocol):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def index(self) -> int: ...


class ControllerRequests:
    def __init__(
        self,
        runtime: Runtime,
        ask: Ask,
        metadata: Metadata,
        config: BrokerConfig,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.config = config
        """The settings in force; dynamic changes replace this."""
        self._runtime = runtime
        self._ask = ask
        self._metadata = metadata
        self._broker_id = config.node_id
        self._broker_epoch = broker_epoch
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}
        metadata.subscribe(self._metadata_changed)

    # --- topics ---------------------------------------------------------------------------------

    async def auto_create_topics(
        self, names: Iterable[str], ask: Ask | None = None
    ) -> CreateTopicsResponse:
        """Create topics with default settings; internal ones as their coordinators need them. Then
        wait until they are known here too, unless that takes long. `ask` sends the request for the
        client that needs the topics; without it, this broker asks."""
        names = list(names)
        brokers = sum(not broker.fenced for broker in self._metadata.image.brokers.values())
        request = auto_create_request(names, self.config, brokers)
        response: CreateTopicsResponse = await (ask or self._ask)(request)
        there = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        await self.wait_until_visible(
            [topic.name for topic in response.topics if topic.error_code in there]
        )
        return response

    async def wait_until_visible(self, names: Iterable[str]) -> None:
        """Wait until these topics, which the controller has created, are in the image of this
        broker. Gives up after 2 s."""
        waiting = []
        for name in names:
            if name not in self._metadata.image.topics:
                seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._awaited.setdefault(name, []).append(seen)
                waiting.append((name, seen))
        if waiting:
            await asyncio.wait([seen for _, seen in waiting], timeout=TOPIC_SEEN_S_MAX)
        for name, seen in waiting:
            if not seen.done():
                self._awaited[name].remove(seen)
                if not self._awaited[name]:
                    del self._awaited[name]

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not self._awaited:
            return
        for topic in delta.created.values():
            for seen in self._awaited.pop(topic.name, ()):
                seen.set_result(None)

    # --- log dirs -------------------------------------------------------------------------------

    def assign_directories(self, chosen: Mapping[Replica, bytes]) -> None:
        """Report the log dirs of replicas on this broker, in the background: replica -> directory
        id."""
        pairs = list(chosen.items())
        for start in range(0, len(pairs), ASSIGNMENTS_PER_REQUEST_MAX):
            part = dict(pairs[start : start + ASSIGNMENTS_PER_REQUEST_MAX])
            self._runtime.spawn(self._assign(part), name="note-folders")

    async def confirm_directory(self, replica: HostedReplica, folder: bytes) -> bool:
        """Report the log dir of a replica; True if the controller has recorded it."""
        try:
            response = await self._ask(
                self._assignment({(replica.topic_id, replica.index): folder})
            )
            _check(response)
            for directory in response.directories:
                for topic in directory.topics:
                    for partition in topic.partitions:
                        _check(partition)
        except KafkaError as error:
            log.warning(
                "the request to record the data folder of a moved replica failed", reason=str(error)
            )
            return False
        return True

    async def _assign(self, chosen: Mapping[Replica, bytes]) -> None:
        for _ in range(TRIES_MAX):
            try:
                _check(await self._ask(self._assignment(chosen)))
            except KafkaError as error:
                log.warning(
                    "the request to record data folders of replicas failed", reason=str(error)
                )
            else:
                return
            await asyncio.sleep(RETRY_S)

    def _assignment(self, chosen: Mapping[Replica, bytes]) -> AssignReplicasToDirsRequest:
        folders: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), folder in chosen.items():
            folders.setdefault(folder, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                RequestDirectoryData(
                    id=folder,
                    topics=[
                        RequestTopicData(
                            topic_id=topic_id,
                            partitions=[RequestPartitionData(partition_index=i) for i in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for folder, topics in folders.items()
            ],
        )


def _check(response: Any) -> None:
    code = ErrorCode.of(response.error_code)
    if code != ErrorCode.NONE:
        raise KafkaError(code)
