"""A batch that is sent again is as safe as the first one before it is acknowledged."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from server_wire import batch_of, produce_request

from ottla.broker.replication.group_commit import begin_flush, end_flush
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.topic import HostedTopic
from ottla.broker.server.handlers import produce
from ottla.broker.server.purgatory import DelayedWrite
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.messages.produce import ProduceRequest
from ottla.runtime.os_disk import OsDisk

VERSION = 11


class Clock:
    def now(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return int(time.time() * 1000)


class FakeRuntime:
    clock = Clock()

    def call_later(self, delay_s: float, callback: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """One whose records count when they are flushed, and nobody flushes by himself."""
    config = TopicConfig(flush_messages=1)
    folder = str(tmp_path / "t-0")
    log = Log.open(OsDisk(), folder, "t", 0, config, Clock(), clean=True)
    one = Partition("t", b"i" * 16, 0, lambda _: log, lambda _: None)
    one.leader_epoch = 0
    one.isr = (1,)
    one.attach(log)
    return one


def handle(partition: Partition, batch: bytes) -> Any:
    hosted = HostedTopic("t", b"i" * 16, TopicConfig())
    hosted.partitions[0] = partition
    replicas = SimpleNamespace(topics={"t": hosted}, fail_dir_if_needed=lambda error: error)
    services = SimpleNamespace(
        runtime=FakeRuntime(), replicas=replicas, authorizer=None, topic_figures=None
    )
    context: Any = SimpleNamespace(api_version=VERSION, services=services)
    # As it comes in: records are a view of a buffer that may be written to.
    sent = b"".join(
        bytes(chunk) for chunk in encoder(ProduceRequest, VERSION)(produce_request("t", {0: batch}))
    )
    request, _ = decoder(ProduceRequest, VERSION)(memoryview(bytearray(sent)), 0)
    return produce.handle(context, request)


def test_a_repeated_batch_waits_until_the_first_one_is_safe(partition: Partition) -> None:
    batch = batch_of(7, 0, 0, b"a", b"b")
    answers: list[Any] = []
    for _ in range(2):
        pending = handle(partition, batch)
        assert isinstance(pending, DelayedWrite)
        pending.when_resolved(answers.append)
    assert partition.log is not None
    assert partition.log.end_offset == 2
    assert answers == []
    covered = begin_flush(partition)
    partition.log.flush()
    end_flush(partition, covered)
    assert [answer.responses[0].partition_responses[0].base_offset for answer in answers] == [0, 0]
    assert [answer.responses[0].partition_responses[0].error_code for answer in answers] == [0, 0]


def test_a_batch_repeated_after_that_is_answered_at_once(partition: Partition) -> None:
    batch = batch_of(7, 0, 0, b"a", b"b")
    assert isinstance(handle(partition, batch), DelayedWrite)
    covered = begin_flush(partition)
    assert partition.log is not None
    partition.log.flush()
    end_flush(partition, covered)
    answer = handle(partition, batch).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert partition.log.end_offset == 2
