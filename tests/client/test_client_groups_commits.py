"""Committing: by hand, in the background, on its own; who may; and what is said when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from bench.brokers import Broker
from confluent_kafka import Consumer as TheirConsumer
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as TheirPartition
from consumer_tools import create_topic, filled, run, take
from group_tools import PROTOCOLS, crew, shared, until

from ottla.client.errors import CommitFailed, IllegalState
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

both_protocols = pytest.mark.parametrize("protocol", ["eager", "new"])


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@both_protocols
def test_a_consumer_that_assigns_by_hand_keeps_its_offsets_in_a_group(
    protocol: str, bootstrap: str, topic: str
) -> None:
    places = filled(bootstrap, topic, 20, partitions=2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], enable_auto_commit=False) as group:
            first = group.make("").consumer
            await first.start()
            first.assign(places)
            assert await first.committed(places) == dict.fromkeys(places)
            assert len(await take(first, 12)) == 12
            await first.commit({places[0]: OffsetAndMetadata(4, "a note", 0), places[1]: 7})
            assert await first.committed(places) == {
                places[0]: OffsetAndMetadata(4, "a note", 0),
                places[1]: OffsetAndMetadata(7),
            }
            await first.close()
            second = group.make("").consumer
            await second.start()
            second.assign(places)
            records = await take(second, 9)
            assert min(one.offset for one in records if one.partition == 0) == 4
            assert min(one.offset for one in records if one.partition == 1) == 7

    run(main)


@both_protocols
def test_auto_commit_works_without_a_subscription_too(
    protocol: str, bootstrap: str, topic: str
) -> None:
    (place,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            consumer = group.make("").consumer
            await consumer.start()
            consumer.assign([place])
            await take(consumer, 10)

            async def is_committed() -> bool:
                await consumer.poll(10)
                found = (await consumer.committed([place]))[place]
                return found is not None and found.offset == 10

            await until(is_committed)

    run(main)


@both_protocols
def test_close_commits_what_was_consumed(protocol: str, bootstrap: str, topic: str) -> None:
    (place,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        rare = {"auto_commit_interval_ms": 60_000}
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], **rare) as group:
            first, second = group.make().consumer, group.make("").consumer
            await first.start()
            await take(first, 6)
            await first.close()
            await second.start()
            assert (await second.committed([place]))[place].offset == 6

    run(main)


@both_protocols
def test_commits_in_the_background_keep_their_order_and_tell_it(
    protocol: str, bootstrap: str, topic: str
) -> None:
    (place,) = filled(bootstrap, topic, 100)
    told: list[tuple[int, Exception | None]] = []

    def note(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        told.append((offsets[place].offset, error))

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], enable_auto_commit=False) as group:
            member = group.make()
            await member.consumer.start()
            await take(member.consumer, 100)
            for offset in range(50):
                member.consumer.commit_async({place: offset}, note)
            assert told == [], "a callback runs in the application's time only"
            await member.consumer.commit({place: 50})
            assert told == [(offset, None) for offset in range(50)]
            assert (await member.consumer.committed([place]))[place].offset == 50
            member.consumer.commit_async({place: 51}, note)
            await asyncio.sleep(0.2)
            await member.consumer.poll(0)
            assert told[-1] == (51, None)

    run(main)


@both_protocols
def test_an_async_callback_is_awaited_and_close_waits_for_commits(
    protocol: str, bootstrap: str, topic: str
) -> None:
    (place,) = filled(bootstrap, topic, 10)
    told = []

    async def note(offsets: Any, error: Exception | None) -> None:
        await asyncio.sleep(0)
        told.append((dict(offsets), error))

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], enable_auto_commit=False) as group:
            member = group.make()
            await member.consumer.start()
            await take(member.consumer, 10)
            member.consumer.commit_async({place: 3}, note)
            await member.consumer.close()
            assert told == [({place: OffsetAndMetadata(3)}, None)]

    run(main)


@both_protocols
def test_nobody_but_members_commits_to_a_group_that_has_some(
    protocol: str, bootstrap: str, topic: str
) -> None:
    (place,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member = await group.join()
            await until(shared(1, member))
            stranger = group.make("", enable_auto_commit=False).consumer
            await stranger.start()
            stranger.assign([place])
            with pytest.raises(CommitFailed, match="has members, and only they may commit"):
                await stranger.commit({place: 1})

    run(main)


@both_protocols
def test_a_note_that_is_too_long(protocol: str, bootstrap: str, topic: str) -> None:
    (place,) = filled(bootstrap, topic, 1)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            consumer = group.make("").consumer
            await consumer.start()
            with pytest.raises(KafkaError, match=str(place)) as caught:
                await consumer.commit({place: OffsetAndMetadata(1, "x" * 10_000)})
            assert caught.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE

    run(main)


def test_what_is_no_offset_is_refused_at_once(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def main() -> None:
        async with crew(bootstrap, topic) as group:
            consumer = group.make("").consumer
            await consumer.start()
            with pytest.raises(ValueError, match="-3 is not an offset"):
                await consumer.commit({place: -3})

    run(main)


def test_without_a_group_there_is_nothing_to_commit_to(bootstrap: str, topic: str) -> None:
    (place,) = create_topic(bootstrap, topic)

    async def main() -> None:
        async with crew(bootstrap, topic, group_id=None) as group:
            consumer = group.make("").consumer
            await consumer.start()
            consumer.assign([place])
            await consumer.poll(10)
            with pytest.raises(IllegalState, match="set group_id"):
                await consumer.commit({place: 1})

    run(main)


@both_protocols
def test_offsets_of_a_transaction_are_waited_for(protocol: str, bootstrap: str, topic: str) -> None:
    (place,) = filled(bootstrap, topic, 10)
    theirs = TheirConsumer({"bootstrap.servers": bootstrap, "group.id": f"group.{topic}"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx.{topic}"})

    def begin() -> None:
        producer.init_transactions(20)
        producer.begin_transaction()
        at = TheirPartition(topic, 0, 5)
        producer.send_offsets_to_transaction([at], theirs.consumer_group_metadata(), 20)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            consumer = group.make("").consumer
            await consumer.start()
            await asyncio.to_thread(begin)
            asking = asyncio.create_task(consumer.committed([place]))
            await asyncio.sleep(0.5)
            assert not asking.done()
            await asyncio.to_thread(producer.commit_transaction, 20)
            assert (await asking)[place].offset == 5

    run(main)
    theirs.close()
