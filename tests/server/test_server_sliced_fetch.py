"""A fetch of many partitions is read in slices, between which others write."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.server.handlers import fetch
from ottla.broker.server.pending import Pending, resolved
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.runtime.os_runtime import OsRuntime, run

PARTITIONS = fetch.AT_ONCE_PARTITIONS_MAX + 200
LONG_MS = 60_000


class Written:
    """As much of a partition as a fetch looks at."""

    is_leader = True
    log_start_offset = 0

    def __init__(self) -> None:
        self.high_watermark = self.last_stable_offset = self.stable_bytes = 0
        self.waiters: dict[Any, None] = {}

    def write(self) -> None:
        self.high_watermark += 1
        self.last_stable_offset += 1
        for waiter in list(self.waiters):
            waiter.advanced(self, 1)

    def read(self, offset: int, bytes_max: int, *, min_one: bool) -> bytes:
        return b"r" * (self.high_watermark - offset)

    def read_committed(
        self, offset: int, bytes_max: int, *, min_one: bool
    ) -> tuple[bytes, list[Any]]:
        return self.read(offset, bytes_max, min_one=min_one), []


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_what_is_written_between_two_slices_is_not_waited_for(
    isolation_level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.runtime.pace.SLICE_S", 0.0)
    partitions = {index: Written() for index in range(PARTITIONS)}

    async def story(runtime: OsRuntime) -> Any:
        hosted = SimpleNamespace(partitions=partitions)
        services = SimpleNamespace(
            runtime=runtime,
            authorizer=None,
            live_config=SimpleNamespace(fetch_bytes_max=1 << 20),
            fetch_sessions=SimpleNamespace(create=lambda *_: None, update=_update),
            replicas=SimpleNamespace(topics={"t": hosted}, selects_by_rack=False),
            quotas=SimpleNamespace(is_active=False),
            topic_figures=None,
        )
        context: Any = SimpleNamespace(
            services=services, api_version=12, caller=SimpleNamespace(connection_id=1)
        )
        request = FetchRequest(
            max_wait_ms=LONG_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=index, partition_max_bytes=1 << 20)
                        for index in partitions
                    ],
                )
            ],
        )
        answer = fetch.handle(context, request)
        assert isinstance(answer, Pending)
        for _ in range(3):
            await asyncio.sleep(0)
        partitions[0].write()
        async with asyncio.timeout(20):
            return await resolved(answer)

    (topic,) = run(story).responses
    assert [one.partition_index for one in topic.partitions if one.records] == [0]


def _update(session: Any, topics: Any, forgotten: Any) -> None:
    session.update(topics, forgotten)
