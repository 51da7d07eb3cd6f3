"""Sending and reading columns, against a real broker."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from broker_harness import Broker, MakeBroker
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import (
    BadColumn,
    BufferExhausted,
    DeliveryFailed,
    IllegalState,
    MissingExtra,
    RecordTooLarge,
    TopicMissing,
    Wakeup,
)
from ottla.client.producer.batching import batch
from ottla.client.producer.columns.sent_rows import SentRange
from ottla.client.producer.producer import Producer
from ottla.client.values import TopicPartition
from ottla.records import engine
from ottla.records.engine import murmur2
from ottla.records.pure.writer import PayloadWriter as PurePayloadWriter

WAIT_S = 40.0
PARTITIONS = 3


def bounded(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S):
            await work()

    asyncio.run(main())


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"columns-{uuid.uuid4().hex[:8]}"

    async def work() -> None:
        async with Admin(bootstrap_servers=broker.address) as admin:
            await admin.create_topic(name, partitions=PARTITIONS)

    bounded(work)
    return name


def producer_of(broker: Broker, **options: Any) -> Producer:
    return Producer(bootstrap_servers=broker.address, **options)


def reader_of(broker: Broker, **options: Any) -> Consumer:
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest"} | options
    return Consumer(bootstrap_servers=broker.address, **settings)


def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


async def read_rows(broker: Broker, topic: str, count: int, **options: Any) -> pa.Table:
    """`count` rows from the beginning, and the certainty that there are no more."""
    async with reader_of(broker, **options) as consumer:
        consumer.assign(places(topic))
        batches, found = [], 0
        while found < count:
            rows = await consumer.fetch_arrow(10_000, headers=True)
            assert rows.num_rows, f"{found} of {count} rows, and no more"
            batches.append(rows)
            found += rows.num_rows
        assert (await consumer.fetch_arrow(100)).num_rows == 0
    table = pa.Table.from_batches(batches)
    assert table.num_rows == count
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_what_is_sent_in_columns_is_read_in_columns(broker: Broker, topic: str, codec: str) -> None:
    count = 5_000
    table = pa.table(
        {
            "key": [f"k{number % 17}" if number % 5 else None for number in range(count)],
            "value": [b"v%d" % number if number % 7 else None for number in range(count)],
            "at": pa.array(range(count), pa.timestamp("ms")),
            "h": pa.array(
                [[("n", b"%d" % number), ("empty", None)][: number % 3] for number in range(count)],
                pa.map_(pa.string(), pa.binary()),
            ),
        }
    )

    async def work() -> None:
        async with producer_of(broker, compression_type=codec) as producer:
            sent = await producer.send_arrow(topic, table, timestamp="at", headers="h")
            assert sent.rows == count
            ranges = await sent
        assert sum(one.rows for one in ranges) == count
        rows = await read_rows(broker, topic, count)
        ends = {one.partition.partition: one.last_offset + 1 for one in ranges}
        assert sum(ends.values()) == count
        by_time = rows.sort_by("timestamp")
        assert by_time["timestamp"].cast(pa.int64()).to_pylist() == list(range(count))
        sent_keys = table["key"].cast(pa.binary())
        assert by_time["key"].to_pylist() == sent_keys.to_pylist()
        assert by_time["value"].to_pylist() == table["value"].to_pylist()
        assert [
            [(one["key"], one["value"]) for one in row] for row in by_time["headers"].to_pylist()
        ] == table["h"].to_pylist()
        for row in rows.select(["key", "partition"]).to_pylist():
            if row["key"] is not None:
                assert row["partition"] == (murmur2(row["key"]) & 0x7FFFFFFF) % PARTITIONS

    bounded(work)


def test_rows_of_a_key_keep_their_order_between_records_sent_one_by_one(
    broker: Broker, topic: str
) -> None:
    async def work() -> None:
        async with producer_of(broker, batch_size=1_000) as producer:
            await producer.send(topic, b"first", b"k")
            rows = {"key": ["k"] * 300, "value": [str(number) for number in range(300)]}
            await producer.send_arrow(topic, rows)
            await producer.send(topic, b"last", b"k")
        rows = await read_rows(broker, topic, 302)
        expected = [b"first", *(str(number).encode() for number in range(300)), b"last"]
        assert rows["value"].to_pylist() == expected

    bounded(work)


def test_the_outcome_tells_partitions_and_offsets(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with producer_of(broker) as producer:
            await producer.send_and_wait(topic, b"x", partition=2)
            data = {"value": ["a"] * 5, "p": [2, 0, 2, 0, 2]}
            sent = await producer.send_arrow(topic, data, partition="p")
            assert await sent == [
                SentRange(TopicPartition(topic, 0), 0, 1, 2),
                SentRange(TopicPartition(topic, 2), 1, 3, 3),
            ]
            assert sent.done()
            assert sent.exception() is None
            sent = await producer.send_arrow(topic, {"value": ["b"]}, partition=1)
            assert await sent == [SentRange(TopicPartition(topic, 1), 0, 0, 1)]
            assert await (await producer.send_arrow(topic, {"value": []})) == []

    bounded(work)


def test_rows_without_a_key_are_spread_by_batches(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with producer_of(broker, batch_size=2_000) as producer:
            ranges = await (
                await producer.send_arrow(topic, {"value": [b"x" * 100 for _ in range(3_000)]})
            )
        shares = {one.partition.partition: one.rows for one in ranges}
        assert set(shares) == set(range(PARTITIONS))
        assert min(shares.values()) > 300

    bounded(work)


@pytest.mark.parametrize(
    "writer", [engine.PayloadWriter, PurePayloadWriter], ids=["at hand", "pure"]
)
def test_rows_with_and_without_keys_are_stored_in_their_order(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, writer: type
) -> None:
    monkeypatch.setattr(batch, "PayloadWriter", writer)
    keys = [b"a", None, b"b", None, b"c"]
    table = pa.table({"key": keys, "value": [b"%d" % row for row in range(5)]})

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.address) as admin:
            await admin.create_topic(f"{topic}-one", partitions=1)
        async with producer_of(broker) as producer:
            (sent,) = await (await producer.send_arrow(f"{topic}-one", table))
            assert (sent.first_offset, sent.last_offset) == (0, 4)
        async with reader_of(broker) as reader:
            reader.assign([TopicPartition(f"{topic}-one", 0)])
            found = [await reader.getone() for _ in range(5)]
        assert [(one.key, one.value) for one in found] == list(
            zip(keys, table["value"].to_pylist(), strict=True)
        )

    bounded(main)


def test_a_stream_is_sent_as_it_is_read(broker: Broker, topic: str) -> None:
    taken = []

    def batches() -> Any:
        for number in range(5):
            taken.append(number)
            yield pa.record_batch({"value": [f"{number}-{row}" for row in range(100)]})

    async def work() -> None:
        schema = pa.schema([("value", pa.string())])
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        async with producer_of(broker) as producer:
            sent = await producer.send_arrow(topic, reader, partition=0)
            assert sum(one.rows for one in await sent) == 500
        rows = await read_rows(broker, topic, 500)
        assert rows["value"][499].as_py() == b"4-99"
        assert taken == list(range(5))

    bounded(work)


def test_wrong_data_is_refused_before_anything_is_sent(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with producer_of(broker, max_request_size=10_000) as producer:
            with pytest.raises(BadColumn, match="column 'value': is int64"):
                await producer.send_arrow(topic, {"value": [1, 2]})
            with pytest.raises(BadColumn, match=f"has partition {PARTITIONS}"):
                await producer.send_arrow(
                    topic, {"value": ["a", "b"], "p": [0, PARTITIONS]}, partition="p"
                )
            with pytest.raises(TopicMissing):
                await producer.send_arrow(topic, {"value": ["a"]}, partition=PARTITIONS)
            with pytest.raises(RecordTooLarge, match="max_request_size") as raised:
                await producer.send_arrow(topic, {"value": ["a", "b" * 20_000]})
            assert raised.value.__notes__ == ["it is row 1 of the data"]
            await producer.send_arrow(topic, {"value": ["fine"]})
        rows = await read_rows(broker, topic, 1)
        assert rows["value"].to_pylist() == [b"fine"]

    bounded(work)


def test_a_partitioner_of_ones_own_is_not_asked_for_rows(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with producer_of(broker, partitioner=lambda *_: 0) as producer:
            with pytest.raises(IllegalState, match="name a column of partitions"):
                await producer.send_arrow(topic, {"value": ["a"]})
            await producer.send_arrow(topic, {"value": ["a"], "p": [1]}, partition="p")
        assert (await read_rows(broker, topic, 1))["partition"].to_pylist() == [1]

    bounded(work)


def test_rows_wait_for_room_in_the_buffer(broker: Broker, topic: str) -> None:
    async def work() -> None:
        memory = 100_000
        async with producer_of(broker, buffer_memory=memory, batch_size=10_000) as producer:
            values = [b"%06d" % number + b"x" * 500 for number in range(4_000)]
            least = memory

            async def watch() -> None:
                nonlocal least
                while True:
                    least = min(least, producer.metrics()["buffer-available-bytes"])
                    await asyncio.sleep(0)

            watching = asyncio.ensure_future(watch())
            sent = await producer.send_arrow(topic, {"value": values}, partition=0)
            watching.cancel()
            await sent
            assert 0 <= least < memory / 2
        rows = await read_rows(broker, topic, 4_000)
        assert rows["value"].to_pylist() == values

    bounded(work)


def test_a_full_buffer_is_an_error_after_max_block_ms(fresh_broker: MakeBroker) -> None:
    async def work() -> None:
        broker = fresh_broker()
        options = {"buffer_memory": 50_000, "max_block_ms": 300, "retry_backoff_ms": 20}
        producer = producer_of(broker, **options)
        await producer.start()
        await producer.send_and_wait("stalled", b"x")
        await asyncio.to_thread(broker.kill)
        with pytest.raises(BufferExhausted) as raised:
            await producer.send_arrow("stalled", {"value": [b"y" * 1_000] * 100})
        taken = int(raised.value.__notes__[0].split()[0])
        assert 20 < taken < 50
        with pytest.raises(DeliveryFailed):  # those that were taken are not forgotten
            await producer.close(timeout_ms=0)

    bounded(work)


def test_rows_in_a_transaction_are_seen_when_it_is_committed(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with producer_of(broker, transactional_id=f"t-{topic}") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_arrow(topic, {"value": ["aborted"] * 10})
            await producer.flush()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_arrow(topic, {"value": ["committed"] * 10})
        rows = await read_rows(broker, topic, 10, isolation_level="read_committed")
        assert set(rows["value"].to_pylist()) == {b"committed"}
        await read_rows(broker, topic, 20)

    bounded(work)


def test_nothing_in_time_is_no_rows_with_the_same_schema(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with reader_of(broker) as consumer:
            consumer.assign(places(topic))
            rows = await consumer.fetch_arrow(50, headers=True)
            assert rows.num_rows == 0
            async with producer_of(broker) as producer:
                await producer.send_and_wait(topic, b"x")
            found = await consumer.fetch_arrow(10_000, headers=True)
            assert found.num_rows == 1
            assert found.schema == rows.schema

    bounded(work)


def test_limits_positions_pauses_and_seeks_are_those_of_poll(broker: Broker, topic: str) -> None:
    async def work() -> None:
        first, second = places(topic)[:2]
        async with producer_of(broker) as producer:
            for place in (0, 1):
                await producer.send_arrow(topic, {"value": ["a"] * 10}, partition=place)
        async with reader_of(broker) as consumer:
            consumer.assign([first, second])
            consumer.pause(second)
            rows = await consumer.fetch_arrow(10_000, 4)
            assert (rows["partition"].to_pylist(), rows["offset"].to_pylist()) == (
                [0] * 4,
                [0, 1, 2, 3],
            )
            assert await consumer.position(first) == 4
            polled = await consumer.poll(10_000, max_records=2)
            assert [record.offset for record in polled[first]] == [4, 5]
            consumer.seek(first, 8)
            assert (await consumer.fetch_arrow(10_000))["offset"].to_pylist() == [8, 9]
            consumer.pause(first)
            consumer.resume(second)
            found = 0
            while found < 10:
                rows = await consumer.fetch_arrow(10_000, 3)
                assert 0 < rows.num_rows <= 3
                assert set(rows["partition"].to_pylist()) == {1}
                found += rows.num_rows

    bounded(work)


def test_wakeup_ends_the_wait_for_columns(broker: Broker, topic: str) -> None:
    async def work() -> None:
        async with reader_of(broker) as consumer:
            consumer.assign(places(topic))
            waiting = asyncio.ensure_future(consumer.fetch_arrow(30_000))
            await asyncio.sleep(0.05)
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await waiting

    bounded(work)


def test_columns_that_were_read_are_committed_when_more_is_asked_for(
    broker: Broker, topic: str
) -> None:
    async def work() -> None:
        async with producer_of(broker) as producer:
            await producer.send_arrow(topic, {"value": ["a"] * 10}, partition=0)
        place = TopicPartition(topic, 0)
        options = {"group_id": f"g-{topic}", "enable_auto_commit": True}

        async def fail_in_the_middle() -> None:
            async with reader_of(broker, **options) as consumer:
                consumer.assign([place])
                await consumer.fetch_arrow(10_000, 4)
                await consumer.fetch_arrow(10_000, 3)
                raise ValueError("in the middle of the second")

        with pytest.raises(ValueError, match="in the middle"):
            await fail_in_the_middle()
        async with reader_of(broker, **options) as consumer:
            consumer.assign([place])
            assert (await consumer.committed([place]))[place].offset == 4
            assert (await consumer.fetch_arrow(10_000))["offset"].to_pylist() == [4, 5, 6, 7, 8, 9]

    bounded(work)


def test_without_pyarrow_the_extra_is_named(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    async def work() -> None:
        async with producer_of(broker) as producer:
            with pytest.raises(MissingExtra, match="pip install 'ottla\\[arrow\\]'"):
                await producer.send_arrow(topic, {"value": ["a"]})
        async with reader_of(broker) as consumer:
            consumer.assign(places(topic))
            with pytest.raises(MissingExtra):
                await consumer.fetch_arrow(100)

    bounded(work)


def test_members_of_a_group_share_the_columns(group_broker: Broker) -> None:
    topic = f"columns-{uuid.uuid4().hex[:8]}"

    async def work() -> None:
        async with Admin(bootstrap_servers=group_broker.address) as admin:
            await admin.create_topic(topic, partitions=PARTITIONS)
        async with producer_of(group_broker) as producer:
            for place in range(PARTITIONS):
                await producer.send_arrow(topic, {"value": ["a"] * 100}, partition=place)
        seen: list[tuple[int, int]] = []
        everything = asyncio.Event()

        async def read() -> None:
            async with Consumer(
                topic,
                bootstrap_servers=group_broker.address,
                group_id=f"g-{topic}",
                auto_offset_reset="earliest",
            ) as consumer:
                async for rows in consumer.arrow_batches(max_records=50):
                    pairs = zip(
                        rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True
                    )
                    seen.extend(pairs)
                    if len(seen) >= 100 * PARTITIONS:
                        everything.set()

        readers = [asyncio.ensure_future(read()) for _ in range(2)]
        await everything.wait()
        for one in readers:
            one.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        assert set(seen) == {
            (place, offset) for place in range(PARTITIONS) for offset in range(100)
        }

    bounded(work)
