"""Small requests with large effects: a topic of thousands of partitions comes, grows and goes while
others are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from bench import wire
from largest_requests import Longest, Meter, Probe, frame_of

import ottla.testing
from ottla.broker.server.contract import BROKERS
from ottla.broker.server.handlers import describe_log_dirs
from ottla.protocol.codec import decoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.runtime.collector import collector_paused
from ottla.runtime.os_runtime import OsRuntime, run

TURN_MS_MAX = 50.0
WIDE = 9_000
WIDE_FOR_THREE = 6_000
LOGS_MIN = 2_000
"""So many folders are there when the topic goes; all of them would take long to make."""


@pytest.fixture
def broker() -> Iterator[Probe]:
    with ottla.testing.cluster(nodes=1) as cluster:
        yield Probe(cluster)


@pytest.fixture
def three() -> Iterator[Probe]:
    """All in one loop: the turns of those that follow the controller are measured, too."""
    with ottla.testing.cluster(nodes=3) as cluster:
        yield Probe(cluster)


def creation(name: str, partitions: int, replicas: int = 1) -> bytes:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return frame_of(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)


def deletion(name: str) -> bytes:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
    return frame_of(request, 6)


def growth(name: str, partitions: int) -> bytes:
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    return frame_of(CreatePartitionsRequest(topics=[topic], timeout_ms=30_000), 3)


def asked(probe: Probe, frame: bytes, answer: Any, version: int) -> Any:
    data = probe.ask(BROKERS, frame)
    assert data is not None
    return decoder(answer, version)(data, 5)[0]


def produced(probe: Probe, topic: str, index: int) -> int:
    """The error code."""
    partition = PartitionProduceData(index=index, records=memoryview(wire.batch([b"x"])))
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    frame = frame_of(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), 9)
    response = asked(probe, frame, ProduceResponse, 9)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def wait_for_log(probe: Probe, topic: str, index: int) -> None:
    """They are made in the order of their numbers."""
    deadline = time.monotonic() + 60
    while probe.node.log_manager.get(topic, index) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def check(result: Longest, nodes: int = 1) -> None:
    """On a busy machine all nodes of one loop may have work in the same turn."""
    assert result.response_bytes, result
    assert result.turn_ms < TURN_MS_MAX * nodes, result


def test_a_wide_topic_comes(broker: Probe):
    check(broker.longest(BROKERS, "CreateTopics", creation("new", WIDE)))
    assert produced(broker, "new", WIDE - 1) == 0  # answered means: usable on this broker


def test_a_wide_topic_comes_where_others_follow_the_controller(three: Probe):
    check(three.longest(BROKERS, "CreateTopics", creation("new", WIDE_FOR_THREE)), nodes=3)
    deadline = time.monotonic() + 60
    while produced(three, "new", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_topic_grows_wide(broker: Probe):
    asked(broker, creation("new", 1), CreateTopicsResponse, 7)
    check(broker.longest(BROKERS, "CreatePartitions", growth("new", WIDE)))
    assert produced(broker, "new", WIDE - 1) == 0


def test_wide_topics_are_told_of(broker: Probe):
    names = [f"wide-{number}" for number in range(2)]
    for name in names:
        asked(broker, creation(name, WIDE), CreateTopicsResponse, 7)
    check(broker.longest(BROKERS, "Metadata", frame_of(MetadataRequest(topics=None), 12)))
    asked(broker, creation("small", 1), CreateTopicsResponse, 7)
    # With more than before, as what was told is kept with the topics.
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        include_topic_authorized_operations=True,
    )
    check(broker.longest(BROKERS, "Metadata", frame_of(wanted, 9)))
    response = asked(broker, frame_of(wanted, 9), MetadataResponse, 9)
    assert [len(topic.partitions) for topic in response.topics] == [WIDE] * 2


class Folders(list[SimpleNamespace]):
    def is_cordoned(self, folder: SimpleNamespace) -> bool:
        return False


def test_tens_of_thousands_of_logs_are_told_of(monkeypatch: pytest.MonkeyPatch):
    """Of a broker that only looks as if it had them: to make them would take minutes."""
    logs = [
        SimpleNamespace(
            topic=f"topic-{number // WIDE}",
            partition=number % WIDE,
            parent_directory="/data",
            size_bytes=number,
            end_offset=number,
        )
        for number in range(10 * WIDE)
    ]
    found = {(log.topic, log.partition): log for log in logs}
    meter = Meter()

    async def main(runtime: OsRuntime) -> DescribeLogDirsResponse:
        monkeypatch.setattr(type(runtime.disk), "space", lambda *_: (10, 5))
        folder = SimpleNamespace(path="/data", online=True, serves_partitions=True)
        manager = SimpleNamespace(
            logs=lambda: list(logs),
            log_count=len(logs),
            get=lambda *partition: found[partition],
            futures=SimpleNamespace(all=list, get=lambda *_: None),
            dirs=Folders([folder]),
        )
        services = SimpleNamespace(
            log_manager=manager,
            replicas=SimpleNamespace(topics={}),
            runtime=runtime,
        )
        context: Any = SimpleNamespace(services=services)
        running = asyncio.create_task(meter.run())
        await asyncio.sleep(0)
        with collector_paused():
            response = describe_log_dirs.handle(context, DescribeLogDirsRequest(topics=None))
            if not isinstance(response, DescribeLogDirsResponse):
                response = await response
            await asyncio.sleep(0)
        meter.stop()
        await running
        return response

    told = run(main)
    assert [topic.name for topic in told.results[0].topics] == [f"topic-{n}" for n in range(10)]
    sizes = [p.partition_size for topic in told.results[0].topics for p in topic.partitions]
    assert sizes == list(range(10 * WIDE))
    assert meter.longest_s * 1000 < TURN_MS_MAX


def test_a_wide_topic_goes(broker: Probe):
    asked(broker, creation("new", WIDE), CreateTopicsResponse, 7)
    wait_for_log(broker, "new", LOGS_MIN)
    check(broker.longest(BROKERS, "DeleteTopics", deletion("new")))
    assert produced(broker, "new", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.node.log_manager.get("new", 0) is None
    # The name is free, and nothing of what was there is found again.
    asked(broker, creation("new", 2), CreateTopicsResponse, 7)
    assert produced(broker, "new", 1) == 0
    assert asked(broker, deletion("new"), DeleteTopicsResponse, 6).responses[0].error_code == 0
