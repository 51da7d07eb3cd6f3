"""ISR proposals and the controller's answers, when metadata comes in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.metadata.image import BrokerImage, PartitionImage
from ottla.broker.replication import isr
from ottla.broker.replication.cluster_view import ClusterView
from ottla.broker.replication.follower_fetch import FollowerFetch, take_fetch
from ottla.broker.replication.isr_changes import IsrChanges
from ottla.broker.replication.partition import Partition
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.runtime.os_runtime import OsRuntime, run

TOPIC_ID = b"t" * 16
REFUSED = AlterPartitionResponse(
    topics=[
        ResponseTopicData(
            topic_id=TOPIC_ID,
            partitions=[
                ResponsePartitionData(partition_index=0, error_code=ErrorCode.INELIGIBLE_REPLICA)
            ],
        )
    ]
)


def proposals(folder: Path, *, broker_comes_back_first: bool) -> int:
    """The proposals of a partition with a waiting follower; the controller refuses them all."""
    asked: list[AlterPartitionRequest] = []

    async def main(runtime: OsRuntime) -> None:
        view = ClusterView(1, runtime.clock, 30_000)
        log = Log.open(runtime.disk, str(folder), "t", 0, TopicConfig(), runtime.clock, clean=True)
        partition = Partition("t", TOPIC_ID, 0, lambda _: log, lambda _: None, view)
        partition.attach(log, 0)

        async def ask(request: Any) -> Any:
            asked.append(request)
            if broker_comes_back_first and len(asked) == 1:
                view.image = replace(view.image, brokers=dict(view.image.brokers))
                isr.review(partition)  # as metadata of brokers has it done
            return REFUSED

        view.propose = IsrChanges(runtime, view, ask).submit
        brokers = {2: BrokerImage(2, 1, bytes(16), {}, None, fenced=False)}
        view.image = replace(view.image, brokers=brokers)
        partition.lead(PartitionImage(0, 1, 5, (1, 2), (1,), 7))
        take_fetch(partition, FollowerFetch(2, 1, 5, 0, -1, 0), view.now_ms())
        for _ in range(50):
            await asyncio.sleep(0)
        log.close(clean=True)

    run(main)
    return len(asked)


@pytest.mark.parametrize(("broker_comes_back_first", "expected"), [(True, 2), (False, 1)])
def test_a_refusal_is_followed_by_a_new_proposal_if_the_news_it_rests_on_came_before(
    tmp_path: Path, broker_comes_back_first: bool, expected: int
) -> None:
    assert proposals(tmp_path, broker_comes_back_first=broker_comes_back_first) == expected
