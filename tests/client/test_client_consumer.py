"""A consumer without a group against a real broker: polls, iteration, going elsewhere."""

from __future__ import annotations

import asyncio
import time

import pytest
from consumer_tools import (
    create_topic,
    filled,
    nothing_comes,
    numbers,
    offsets,
    produce,
    reader,
    run,
    take,
    values,
)

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.interceptors import ConsumerInterceptor, Records
from ottla.client.errors import (
    BadSetting,
    IllegalState,
    NoBrokerReachable,
    NoOffsetForPartition,
    OffsetOutOfRange,
    RecordDeserializationError,
    TopicMissing,
    Wakeup,
)
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


async def poll_on(consumer: Consumer) -> None:
    while True:
        await consumer.poll(1000)


def test_poll_brings_every_record_of_every_partition_once_in_order(
    bootstrap: str, topic: str
) -> None:
    partitions = filled(bootstrap, topic, 3000, 3)

    async def main() -> None:
        async with reader(bootstrap, max_poll_records=100) as consumer:
            consumer.assign(partitions)
            found: dict[TopicPartition, list[bytes]] = {one: [] for one in partitions}
            while sum(map(len, found.values())) < 3000:
                polled = await consumer.poll(5_000)
                assert 0 < sum(map(len, polled.values())) <= 100
                for one, records in polled.items():
                    found[one] += values(records)
            for one in partitions:
                assert found[one] == [b"%d" % n for n in range(one.partition, 3000, 3)]
            assert await consumer.position(partitions[0]) == 1000
            assert consumer.lag() == dict.fromkeys(partitions, 0)
            assert await nothing_comes(consumer)

    run(main)


def test_iteration_brings_the_same_and_waits_for_more(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 1500)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            found: list[bytes] = []
            writing: asyncio.Task[None] | None = None
            async for record in consumer:
                found.append(record.value)
                if record.value == b"1499":
                    later = asyncio.to_thread(produce, bootstrap, topic, [b"later"])
                    writing = asyncio.create_task(later)  # type: ignore[arg-type]
                elif record.value == b"later":
                    break
            assert writing is not None
            await writing
            assert found == [*numbers(1500), b"later"]

    run(main)


def test_records_tell_everything_about_themselves(bootstrap: str, topic: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"v"], key=b"k", timestamp=1234)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            record = await consumer.getone()
            assert record[:5] == (topic, 0, 0, 1234, 0)
            assert (record.key, record.value, record.headers) == (b"k", b"v", ())
            assert record.topic_partition == partition
            assert record.leader_epoch >= 0

    run(main)


def test_batches_are_lists_of_one_partition(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 600, 2)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            found = []
            async for records in consumer.batches(50):
                assert len({record.partition for record in records}) == 1
                assert len(records) <= 50
                found += values(records)
                if len(found) == 600:
                    break
            assert sorted(map(int, found)) == list(range(600))

    run(main)


def test_small_fetches_bring_the_same_as_large_ones(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 2000, 3)

    async def main() -> None:
        options = {"max_partition_fetch_bytes": 100, "fetch_max_bytes": 500}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign(partitions)
            found = await take(consumer, 2000)
            assert sorted(int(record.value) for record in found) == list(range(2000))

    run(main)


def test_a_busy_partition_does_not_wait_for_an_idle_one(bootstrap: str, topic: str) -> None:
    busy, idle = create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, [bytes(1000)] * 8000)

    async def main() -> None:
        options = {"max_partition_fetch_bytes": 200_000, "fetch_max_wait_ms": 5_000}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign([busy, idle])
            began = time.monotonic()
            await take(consumer, 8000)
            assert time.monotonic() - began < 5

    run(main)


def test_what_waits_to_be_read_is_bounded(bootstrap: str, topic: str) -> None:
    partitions = create_topic(bootstrap, topic, 4)
    produce(bootstrap, topic, [bytes(10_000)] * 2000, partitions=4)

    async def main() -> None:
        options = {"max_partition_fetch_bytes": 300_000, "fetch_max_bytes": 1_000_000}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign(partitions)
            for _ in range(100):
                await take(consumer, 10)
                assert consumer._core is not None
                assert consumer._core.buffer.size < 2_400_000
                await asyncio.sleep(0.005)  # as long as it takes to fetch more than is allowed

    run(main)


def test_whole_batches_can_be_had_unopened(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 1000, 2)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            count = 0
            while count < 1000:
                for batch in await consumer.fetch_batches(5_000, max_bytes=1):
                    assert batch.header.size == len(batch.data)
                    count += batch.header.record_count
            assert count == 1000
            assert consumer.lag() == dict.fromkeys(partitions, 0)
            assert await consumer.fetch_batches(50) == []

    run(main)


def test_poll_returns_in_time_with_nothing(bootstrap: str, topic: str) -> None:
    partitions = create_topic(bootstrap, topic)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            assert await consumer.poll(0) == {}
            began = time.monotonic()
            assert await consumer.poll(300) == {}
            assert 0.28 < time.monotonic() - began < 1.5

    run(main)


def test_a_poll_without_time_finds_what_polls_before_it_have_fetched(
    bootstrap: str, topic: str
) -> None:
    partitions = filled(bootstrap, topic, 10)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            found: list[bytes] = []
            while len(found) < 10:
                for records in (await consumer.poll(0)).values():
                    found += values(records)
            assert found == numbers(10)

    run(main)


def test_seek_goes_to_the_exact_offset_inside_a_batch_and_back(bootstrap: str, topic: str) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            for offset in (37, 99, 0, 50):
                consumer.seek(partition, offset)
                assert await consumer.position(partition) == offset
                assert offsets(await take(consumer, 1)) == [offset]
            with pytest.raises(ValueError, match="-1 is not an offset"):
                consumer.seek(partition, -1)

    run(main)


def test_a_seek_in_the_loop_body_takes_effect_with_the_next_record(
    bootstrap: str, topic: str
) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            found: list[int] = []
            async for record in consumer:
                found.append(record.offset)
                if found == [0, 1, 2]:
                    consumer.seek(partition, 50)
                if record.offset == 52:
                    break
            assert found == [0, 1, 2, 50, 51, 52]

    run(main)


def test_seeking_to_the_ends_and_to_a_time(bootstrap: str, topic: str) -> None:
    one, other = filled(bootstrap, topic, 200, 2)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([one, other])
            consumer.seek_to_end()
            assert [await consumer.position(p) for p in (one, other)] == [100, 100]
            consumer.seek_to_beginning(one)
            assert [await consumer.position(p) for p in (one, other)] == [0, 100]
            consumer.seek_to_time({one: 1050, other: 1199})
            assert [await consumer.position(p) for p in (one, other)] == [25, 99]
            consumer.seek_to_time({one: 99_999})
            assert await consumer.position(one) == 100
            found = await take(consumer, 1)
            assert values(found) == [b"199"]

    run(main)


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    (partition,) = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            found = await consumer.offsets_for_times({partition: 1042})
            assert found == {partition: OffsetAndTimestamp(42, 1042, found[partition].leader_epoch)}
            assert await consumer.offsets_for_times({partition: 5000}) == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 100}
            assert await consumer.partitions_for_topic(topic) == {0}
            assert topic in await consumer.topics()
            with pytest.raises(TopicMissing, match="nowhere"):
                await consumer.partitions_for_topic("nowhere")
            with pytest.raises(KafkaError, match="nowhere"):
                await consumer.end_offsets([TopicPartition("nowhere", 0)])

    run(main)


def test_where_reading_begins_without_a_position(bootstrap: str, topic: str) -> None:
    (partition,) = create_topic(bootstrap, topic)
    now_ms = int(time.time() * 1000)
    produce(bootstrap, topic, [b"old"], timestamp=now_ms - 7_200_000)
    produce(bootstrap, topic, [b"new"], timestamp=now_ms - 60_000)

    async def begin(policy: str) -> int:
        async with reader(bootstrap, auto_offset_reset=policy) as consumer:
            consumer.assign([partition])
            return await consumer.position(partition)

    async def main() -> None:
        assert await begin("earliest") == 0
        assert await begin("latest") == 2
        assert await begin("by_duration:PT1H") == 1
        assert await begin("by_duration:PT1S") == 2
        with pytest.raises(NoOffsetForPartition, match="auto_offset_reset is none"):
            await begin("none")

    run(main)


def test_without_a_policy_every_poll_says_so_until_a_seek(bootstrap: str, topic: str) -> None:
    one, other = filled(bootstrap, topic, 20, 2)

    async def main() -> None:
        async with reader(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([one, other])
            consumer.seek(other, 0)
            with pytest.raises(NoOffsetForPartition) as caught:
                await poll_on(consumer)
            assert caught.value.topic_partition == one
            consumer.seek(one, 5)
            assert offsets(await take(consumer, 5))[0] in (5, 0)

    run(main)


def test_an_offset_behind_the_end_resets_or_is_an_error(bootstrap: str, topic: str) -> None:
    (partition,) = filled(bootstrap, topic, 10)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 500)
            assert offsets(await take(consumer, 1)) == [0]
        async with reader(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 500)
            for _ in range(2):
                with pytest.raises(OffsetOutOfRange, match=r"at offset 500.*end_offsets"):
                    await consumer.poll(5_000)
            consumer.seek(partition, 9)
            assert offsets(await take(consumer, 1)) == [9]

    run(main)


def test_paused_partitions_give_nothing_and_keep_their_place(bootstrap: str, topic: str) -> None:
    one, other = filled(bootstrap, topic, 2000, 2)

    async def main() -> None:
        async with reader(bootstrap, max_poll_records=10) as consumer:
            consumer.assign([one, other])
            await take(consumer, 10)
            consumer.pause(one)
            assert consumer.paused() == {one}
            before = await consumer.position(one)
            rest = 1000 - await consumer.position(other)
            found = await take(consumer, rest)
            assert {record.partition for record in found} == {1}
            assert await nothing_comes(consumer)
            assert await consumer.position(one) == before
            consumer.resume([one])
            found = await take(consumer, 1000 - before)
            assert offsets(found) == list(range(before, 1000))

    run(main)


def test_pausing_in_the_loop_body_stops_the_partition_there(bootstrap: str, topic: str) -> None:
    one, other = filled(bootstrap, topic, 400, 2)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([one, other])
            first = await anext(consumer)
            paused = first.topic_partition
            consumer.pause(paused)
            others = [(await anext(consumer)).topic_partition for _ in range(200)]
            assert paused not in others
            consumer.resume(paused)
            found = [await anext(consumer) for _ in range(199)]
            assert offsets(found) == list(range(1, 200))

    run(main)


def test_wakeup_ends_the_wait_or_the_next_one(bootstrap: str, topic: str) -> None:
    partitions = create_topic(bootstrap, topic)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            asyncio.get_running_loop().call_later(0.2, consumer.wakeup)
            began = time.monotonic()
            with pytest.raises(Wakeup):
                await consumer.poll(20_000)
            assert time.monotonic() - began < 2
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await anext(consumer)
            assert await consumer.poll(50) == {}

    run(main)


def test_wakeup_interrupts_iteration_and_loses_nothing(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            found = [(await anext(consumer)).offset for _ in range(5)]
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await anext(consumer)
            found += [(await anext(consumer)).offset for _ in range(95)]
            assert found == list(range(100))

    run(main)


def test_polls_and_iteration_can_be_mixed(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            found = [await anext(consumer) for _ in range(5)]
            found += await take(consumer, 7)
            found.append(await consumer.getone())
            found += await take(consumer, 87)
            assert offsets(found) == list(range(100))

    run(main)


def test_iteration_and_a_poll_end_when_the_consumer_is_closed(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 3)

    async def main() -> None:
        consumer = reader(bootstrap)
        await consumer.start()
        consumer.assign(partitions)
        asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(consumer.close()))
        assert [record.offset async for record in consumer] == [0, 1, 2]
        with pytest.raises(IllegalState, match="closed"):
            await consumer.poll(0)
        with pytest.raises(IllegalState, match="closed"):
            await consumer.getone()
        await consumer.close()

    run(main)


def test_two_tasks_cannot_wait_for_records_of_one_consumer(bootstrap: str, topic: str) -> None:
    partitions = create_topic(bootstrap, topic)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign(partitions)
            waiting = asyncio.create_task(consumer.poll(500))
            await asyncio.sleep(0.05)
            with pytest.raises(IllegalState, match="another task"):
                await consumer.poll(0)
            assert await waiting == {}

    run(main)


def test_a_poll_that_is_cancelled_loses_nothing(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 2000)

    async def main() -> None:
        async with reader(bootstrap, max_poll_records=20) as consumer:
            consumer.assign(partitions)
            found: list[int] = []
            while len(found) < 2000:
                poll = asyncio.create_task(consumer.poll(1000))
                await asyncio.sleep(0)
                if len(found) % 3:
                    poll.cancel()
                try:
                    for records in (await poll).values():
                        found += offsets(records)
                except asyncio.CancelledError:
                    for records in (await consumer.poll(1000)).values():
                        found += offsets(records)
            assert found == list(range(2000))

    run(main)


def test_a_topic_that_is_made_later_is_read_then(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        options = {"allow_auto_create_topics": False, "metadata_max_age_ms": 200}
        async with reader(bootstrap, **options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert await consumer.poll(300) == {}
            await asyncio.to_thread(filled, bootstrap, topic, 5)
            assert values(await take(consumer, 5)) == numbers(5)

    run(main)


def test_an_impossible_topic_name_is_said(bootstrap: str) -> None:
    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([TopicPartition("no/topic", 0)])
            with pytest.raises(KafkaError, match="no/topic") as caught:
                await poll_on(consumer)
            assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(main)


def test_what_cannot_be_deserialized_names_the_record_and_can_be_left_out(
    bootstrap: str, topic: str
) -> None:
    (partition,) = create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"1", b"two", b"3", None])

    async def main() -> None:
        async with reader(bootstrap, value_deserializer=int) as consumer:
            consumer.assign([partition])
            assert values(await take(consumer, 1)) == [1]
            with pytest.raises(RecordDeserializationError, match="at offset 1") as caught:
                await anext(consumer)
            assert caught.value.value == b"two"
            consumer.seek(partition, caught.value.next_offset or 0)
            assert values(await take(consumer, 2)) == [3, None]

    run(main)


def test_interceptors_see_and_change_records_and_what_they_raise_is_only_logged(
    bootstrap: str, topic: str
) -> None:
    partitions = filled(bootstrap, topic, 10)

    class Even(ConsumerInterceptor):
        seen = 0
        closed = False

        def on_consume(self, records: Records) -> Records:
            self.seen += sum(map(len, records.values()))
            return {
                one: [record for record in found if record.offset % 2 == 0]
                for one, found in records.items()
            }

        def close(self) -> None:
            self.closed = True

    class Broken(ConsumerInterceptor):
        def on_consume(self, records: Records) -> Records:
            raise RuntimeError("broken on purpose")

    async def main() -> None:
        even = Even()
        async with reader(bootstrap, interceptors=[Broken(), even]) as consumer:
            consumer.assign(partitions)
            found = [(await anext(consumer)).offset for _ in range(5)]
            assert found == [0, 2, 4, 6, 8]
            assert even.seen == 10
            consumer.seek_to_beginning()
            assert offsets(await take(consumer, 5)) == [0, 2, 4, 6, 8]
        assert even.closed

    run(main)


def test_numbers_are_counted_under_kafkas_names(bootstrap: str, topic: str) -> None:
    partitions = filled(bootstrap, topic, 100)

    async def main() -> None:
        async with reader(bootstrap, max_poll_records=40) as consumer:
            consumer.assign(partitions)
            await take(consumer, 40)
            counted = consumer.metrics()
            assert counted["records-consumed-total"] == 40
            assert counted["records-lag-max"] == 60
            assert counted["bytes-consumed-total"] > 100
            assert counted["fetch-size-max"] > 100
            assert counted["fetch-latency-avg"] > 0
            assert consumer.lag() == {partitions[0]: 60}

    run(main)


def test_what_is_out_of_place_is_said(bootstrap: str) -> None:
    with pytest.raises(BadSetting, match="neither a function"):
        Consumer(value_deserializer="utf-8")

    async def main() -> None:
        consumer = reader(bootstrap)
        with pytest.raises(IllegalState, match="not started"):
            await consumer.poll(0)
        with pytest.raises(IllegalState, match="not started"):
            await anext(consumer)
        async with consumer:
            with pytest.raises(IllegalState, match="is not assigned"):
                consumer.seek(TopicPartition("t", 0), 0)
            with pytest.raises(IllegalState, match="group_id"):
                await consumer.commit()
        with pytest.raises(IllegalState, match="started once"):
            await consumer.start()

    run(main)


def test_without_any_broker_starting_fails_in_time_and_names_the_address() -> None:
    async def main() -> None:
        began = time.monotonic()
        with pytest.raises(NoBrokerReachable, match=r"127\.0\.0\.1:1"):
            await reader("127.0.0.1:1", default_api_timeout_ms=500).start()
        assert time.monotonic() - began < 5

    run(main)
