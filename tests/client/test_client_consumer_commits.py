"""What counts as consumed: by default a record comes again rather than never."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from consumer_tools import filled, numbers, run, take, values

from broker_harness import Broker
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.interceptors import ConsumerInterceptor
from ottla.client.values import OffsetAndMetadata, TopicPartition


def member(broker: Broker, topic: str, **options: Any) -> Consumer:
    return Consumer(
        topic,
        **{
            "bootstrap_servers": broker.address,
            "group_id": topic,
            "auto_offset_reset": "earliest",
            **options,
        },
    )


async def committed(broker: Broker, topic: str) -> int | None:
    async with Consumer(bootstrap_servers=broker.address, group_id=topic) as consumer:
        found = (await consumer.committed([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)]
        return None if found is None else found.offset


def test_a_record_that_failed_in_the_loop_body_comes_again(
    group_broker: Broker, topic: str
) -> None:
    filled(group_broker.address, topic, 20)

    async def fail_at(offset: int) -> None:
        async with member(group_broker, topic) as consumer:
            async for record in consumer:
                if record.offset == offset:
                    raise RuntimeError("on purpose")

    async def main() -> None:
        for offset in (7, 12):
            with pytest.raises(RuntimeError):
                await fail_at(offset)
            assert await committed(group_broker, topic) == offset
        async with member(group_broker, topic) as consumer:
            assert values(await take(consumer, 8)) == numbers(20, 12)

    run(main)


def test_leaving_the_loop_in_peace_counts_the_last_record(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 20)

    async def main() -> None:
        async with member(group_broker, topic) as consumer:
            async for record in consumer:
                if record.offset == 9:
                    break
        assert await committed(group_broker, topic) == 10
        async with member(group_broker, topic) as consumer:
            await take(consumer, 10)
        assert await committed(group_broker, topic) == 20

    run(main)


def test_a_poll_that_failed_comes_again_as_a_whole(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 20)

    async def main() -> None:
        async def read() -> None:
            async with member(group_broker, topic) as consumer:
                await take(consumer, 5)
                await take(consumer, 5)
                raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError):
            await read()
        assert await committed(group_broker, topic) == 5

    run(main)


def test_a_commit_by_hand_includes_the_record_in_hand(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 20)

    async def main() -> None:
        async with member(group_broker, topic, enable_auto_commit=False) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    await consumer.commit()
                elif record.offset == 6:
                    break
        assert await committed(group_broker, topic) == 5
        async with member(group_broker, topic, enable_auto_commit=False) as consumer:
            await take(consumer, 3)
            partition = TopicPartition(topic, 0)
            await consumer.commit({partition: 6})
            told: list[object] = []
            consumer.commit_async(
                {partition: OffsetAndMetadata(7, "note")}, lambda *a: told.append(a)
            )
            while not told:
                await consumer.poll(50)
            found = await consumer.committed([partition])
            assert found[partition] == OffsetAndMetadata(7, "note")
        assert await committed(group_broker, topic) == 7

    run(main)


def test_automatic_commits_go_on_while_iterating(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 100)

    class Watch(ConsumerInterceptor):
        seen: list[int] = []

        def on_commit(self, offsets: Any) -> None:
            self.seen += [at.offset for at in offsets.values()]

    async def main() -> None:
        options = {"auto_commit_interval_ms": 100, "interceptors": [Watch()]}
        async with member(group_broker, topic, **options) as consumer:
            async for record in consumer:
                await asyncio.sleep(0.01)
                # Never the record that is being worked on.
                assert not Watch.seen or max(Watch.seen) <= record.offset
                if record.offset == 60:
                    break
            assert len(set(Watch.seen)) > 2
        assert await committed(group_broker, topic) == 61

    run(main)


def test_partitions_assigned_by_hand_begin_where_the_group_committed(
    group_broker: Broker, topic: str
) -> None:
    (partition,) = filled(group_broker.address, topic, 20)

    async def main() -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": group_broker.address,
            "group_id": topic,
            "auto_offset_reset": "earliest",
        }
        async with Consumer(**options) as consumer:
            consumer.assign([partition])
            await take(consumer, 5)
            await consumer.commit()
        async with Consumer(**options) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 5
            assert values(await take(consumer, 15)) == numbers(20, 5)

    run(main)


def test_two_members_share_and_the_rest_takes_over(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 3000, 4)

    async def main() -> None:
        found: list[int] = []
        one = member(group_broker, topic, session_timeout_ms=6_000, heartbeat_interval_ms=100)
        other = member(group_broker, topic, session_timeout_ms=6_000, heartbeat_interval_ms=100)
        async with one:
            async with other:
                while len(one.assignment()) != 2 or len(other.assignment()) != 2:
                    for consumer in (one, other):
                        for records in (await consumer.poll(50, 10)).values():
                            found += [int(record.value) for record in records]
            while len(set(found)) < 3000:
                for records in (await one.poll(1000)).values():
                    found += [int(record.value) for record in records]
            assert len(one.assignment()) == 4
        assert sorted(set(found)) == list(range(3000))
        assert len(found) == 3000

    run(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_finds_topics_that_come_later(
    group_broker: Broker, topic: str, protocol: str
) -> None:
    filled(group_broker.address, f"{topic}.one", 5)

    async def main() -> None:
        consumer = Consumer(
            bootstrap_servers=group_broker.address,
            group_id=topic,
            group_protocol=protocol,  # type: ignore[arg-type]
            auto_offset_reset="earliest",
            metadata_max_age_ms=300,
        )
        async with consumer:
            consumer.subscribe(pattern=f"{topic.replace('.', '[.]')}[.].*")
            assert len(await take(consumer, 5)) == 5
            await asyncio.to_thread(filled, group_broker.address, f"{topic}.two", 5)
            assert {record.topic for record in await take(consumer, 5)} == {f"{topic}.two"}
            if protocol == "classic":  # in the new one the broker does the matching
                assert consumer.subscription() == {f"{topic}.one", f"{topic}.two"}
            await consumer.unsubscribe()
            assert consumer.assignment() == frozenset()

    run(main)
