"""What a broker asks of the controller for itself: topics that clients use, folders of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.membership import controller_requests
from ottla.broker.membership.controller_requests import (
    ASSIGNMENTS_PER_REQUEST_MAX,
    ControllerRequests,
)
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage, TopicImage
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run

TOPIC = TopicImage("t", b"t" * 16, {})


class Cluster:
    """The controller, and how its decisions come to this broker."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.asked: list[Any] = []
        self.codes: list[ErrorCode] = []
        self._was_asked = asyncio.Event()
        self._subscribers: list[Callable[[MetadataDelta, MetadataImage], object]] = []

    def subscribe(self, subscriber: Callable[[MetadataDelta, MetadataImage], object]) -> None:
        self._subscribers.append(subscriber)

    def publish(self) -> None:
        self.image = MetadataImage(topics={TOPIC.name: TOPIC})
        for subscriber in self._subscribers:
            subscriber(MetadataDelta(created={TOPIC.id: TOPIC}), self.image)

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.asked) < count:
                self._was_asked.clear()
                await self._was_asked.wait()

    async def ask(self, request: Message) -> Any:
        self.asked.append(request)
        self._was_asked.set()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if isinstance(request, CreateTopicsRequest):
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=t.name, error_code=code) for t in request.topics]
            )
        assert isinstance(request, AssignReplicasToDirsRequest)
        return AssignReplicasToDirsResponse(error_code=code)


def asking(cluster: Cluster, test: Callable[[ControllerRequests], Awaitable[None]]) -> None:
    async def main(runtime: OsRuntime) -> None:
        config = BrokerConfig.parse({})
        await test(ControllerRequests(runtime, cluster.ask, cluster, config, lambda: 7))

    run(main)


def test_a_topic_that_was_made_for_a_client_is_waited_for() -> None:
    cluster = Cluster()

    async def test(requests: ControllerRequests) -> None:
        made = asyncio.ensure_future(requests.auto_create_topics(["t"]))
        await cluster.until_asked(1)
        await asyncio.sleep(0.01)
        assert not made.done()
        cluster.publish()
        assert (await made).topics[0].error_code == 0

    asking(cluster, test)


def test_a_topic_that_could_not_be_made_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.codes = [ErrorCode.INVALID_REPLICATION_FACTOR]

    async def test(requests: ControllerRequests) -> None:
        async with asyncio.timeout(1):
            await requests.auto_create_topics(["t"])

    asking(cluster, test)


def test_a_topic_that_does_not_come_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_requests, "TOPIC_SEEN_S_MAX", 0.05)
    cluster = Cluster()

    async def test(requests: ControllerRequests) -> None:
        async with asyncio.timeout(1):
            await requests.auto_create_topics(["t", "u"])
        assert requests._awaited == {}

    asking(cluster, test)


def test_folders_are_told_in_requests_of_bounded_size_until_it_worked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_requests, "RETRY_S", 0.01)
    cluster = Cluster()
    cluster.codes = [ErrorCode.STALE_BROKER_EPOCH]
    count = ASSIGNMENTS_PER_REQUEST_MAX + 1
    chosen = {(TOPIC.id, index): (b"a" if index % 2 else b"b") * 16 for index in range(count)}

    async def test(requests: ControllerRequests) -> None:
        requests.assign_directories(chosen)
        await cluster.until_asked(3)
        await asyncio.sleep(5 * controller_requests.RETRY_S)  # and no more

    asking(cluster, test)
    told = [
        [
            ((topic.topic_id, partition.partition_index), folder.id)
            for folder in request.directories
            for topic in folder.topics
            for partition in topic.partitions
        ]
        for request in cluster.asked
    ]
    assert max(map(len, told)) == ASSIGNMENTS_PER_REQUEST_MAX
    assert len(told) == 3
    assert {pair for part in told for pair in part} == set(chosen.items())
    assert {request.broker_epoch for request in cluster.asked} == {7}
