"""Partitions move onto a new broker and an old one is retired, while records flow."""

from __future__ import annotations

import asyncio
import contextlib

import ottla
import ottla.testing
from ottla.client.values import TopicPartition
from ottla.testing.asyncio_cluster import AsyncCluster

PARTITIONS = [TopicPartition("t", index) for index in range(4)]


class Feed:
    """Numbered records, one after the other, for as long as it runs."""

    def __init__(self, servers: str) -> None:
        self.sent = 0
        self._producer = ottla.Producer(bootstrap_servers=servers, acks="all")
        self._task: asyncio.Task[None] | None = None
        self._acknowledged = asyncio.Event()

    async def __aenter__(self) -> Feed:
        await self._producer.start()
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._producer.close()

    async def more(self, count: int) -> None:
        """Until so many more have been acknowledged."""
        wanted = self.sent + count
        while self.sent < wanted:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def _run(self) -> None:
        while True:
            batch = [
                await self._producer.send("t", b"%d" % (self.sent + i), partition=i % 4)
                for i in range(20)
            ]
            await self._producer.flush()
            for sent in batch:
                await sent
            self.sent += len(batch)
            self._acknowledged.set()


async def read_all(servers: str) -> list[int]:
    async with ottla.Consumer(
        "t", bootstrap_servers=servers, auto_offset_reset="earliest", group_id="readers"
    ) as consumer:
        found: list[int] = []
        while True:
            part = await consumer.poll(timeout_ms=2000)
            if not part:
                return found
            found += [int(one.value) for records in part.values() for one in records]


async def settled(admin: ottla.Admin) -> None:
    async with asyncio.timeout(30):
        while await admin.list_partition_reassignments():  # noqa: ASYNC110, only asking tells
            await asyncio.sleep(0.05)


async def story(cluster: AsyncCluster) -> None:
    servers = cluster.bootstrap_servers
    async with ottla.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("t", partitions=4, replication_factor=3)
        new = await cluster.add_node()
        assert new == 4
        await cluster.wait_ready()
        async with Feed(servers) as feed:
            await feed.more(100)
            moved = await admin.alter_partition_reassignments(
                {partition: [4, 2, 3] for partition in PARTITIONS}
            )
            assert set(moved.values()) == {None}
            await settled(admin)
            await feed.more(100)
            for index in range(4):
                assert cluster.leader_of("t", index) in (2, 3, 4)
            await cluster.stop(1)
            await admin.unregister_broker(1)
            await feed.more(100)
            await admin.elect_leaders(PARTITIONS)
            sent = feed.sent
        found = await read_all(servers)
        assert set(range(sent)) <= set(found)
        assert len(found) == len(set(found))


def test_a_fourth_broker_takes_over_and_the_first_is_retired() -> None:
    async def main() -> None:
        async with ottla.testing.async_cluster(nodes=3) as cluster:
            async with asyncio.timeout(90):
                await story(cluster)

    asyncio.run(main())
