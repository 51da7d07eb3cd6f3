"""Small pieces of the producer, each by itself."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import BadSetting, BufferExhausted, DeliveryFailed, ProducerClosed
from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.memory import BufferMemory
from ottla.client.producer.batching.splitting import split
from ottla.client.producer.sending.failures import REMEMBERED_MAX, Failures
from ottla.client.producer.sending.identity import Identity
from ottla.client.producer.sending.verdicts import Verdict, verdict_on_code
from ottla.client.producer.sent import Sent
from ottla.client.serializers import (
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
    deserializer_of,
    serializer_of,
)
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.records.codec import Codec
from ottla.records.header import read_header
from ottla.records.reader import read_records
from ottla.runtime.clock import SystemClock

WHERE = TopicPartition("t", 3)


def closed_batch(*values: bytes) -> ProducerBatch:
    batch = ProducerBatch(WHERE, (1,), 0.0, 0.0)
    assert batch.writer is not None
    for number, value in enumerate(values):
        batch.writer.append(100 + number, b"k", value, [("h", b"1")])
    batch.close()
    return batch


# Memory


def memory(limit: int = 100) -> BufferMemory:
    return BufferMemory(limit, SystemClock())


def test_room_is_given_in_the_order_in_which_it_was_asked_for() -> None:
    async def main() -> None:
        room = memory()
        room.free = 0
        told = []

        async def take(name: str, size: int) -> None:
            await room.reserve(size, 5000)
            told.append(name)

        tasks = [asyncio.create_task(take(*each)) for each in (("large", 80), ("small", 10))]
        await asyncio.sleep(0)
        room.release(50)
        await asyncio.sleep(0)
        assert told == []
        assert room.waiting == 2
        room.release(50)
        await asyncio.gather(*tasks)
        assert told == ["large", "small"]
        assert (room.free, room.waiting) == (10, 0)

    asyncio.run(main())


def test_who_gives_up_waiting_takes_nothing() -> None:
    async def main() -> None:
        room = memory()
        room.free = 0
        first = asyncio.create_task(room.reserve(60, 5000))
        second = asyncio.create_task(room.reserve(30, 5000))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        room.release(40)
        await second
        assert room.free == 10

    asyncio.run(main())


def test_room_that_was_given_to_somebody_who_left_is_given_back() -> None:
    async def main() -> None:
        room = memory()
        room.free = 0
        task = asyncio.create_task(room.reserve(60, 5000))
        await asyncio.sleep(0)
        room.release(100)
        task.cancel()  # after it was given, before the task could know
        await asyncio.gather(task, return_exceptions=True)
        assert room.free == 100

    asyncio.run(main())


def test_waiting_for_room_ends_with_what_to_do() -> None:
    async def main() -> None:
        room = memory()
        for within_ms in (0, 20):
            with pytest.raises(BufferExhausted, match=f"max_block_ms \\({within_ms}\\)"):
                await room.reserve(60, within_ms)
        assert room.exhausted_count == 2
        assert room.waited_s > 0.01

    asyncio.run(main())


def test_those_who_wait_when_the_producer_closes_are_told() -> None:
    async def main() -> None:
        room = memory()
        room.free = 0
        task = asyncio.create_task(room.reserve(60, 5000))
        await asyncio.sleep(0)
        room.fail_all(ProducerClosed())
        with pytest.raises(ProducerClosed):
            await task

    asyncio.run(main())


# Batches


def test_a_batch_is_built_once_and_stamped_anew() -> None:
    batch = closed_batch(b"a", b"b")
    batch.stamp(Identity(7, 0), 5)
    data = batch.sealed(Codec.LZ4, None, transactional=False)
    batch.stamp(Identity(7, 1), 0)
    assert batch.sealed(Codec.LZ4, None, transactional=False) is data
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    assert [record.value for record in read_records(bytes(data))] == [b"a", b"b"]


@given(
    sizes=st.lists(st.integers(0, 300), min_size=2, max_size=40),
    batch_size=st.integers(1, 2000),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
)
def test_a_split_batch_keeps_its_records_in_at_least_two_parts(
    sizes: list[int], batch_size: int, codec: Codec
) -> None:
    batch = closed_batch(*(b"x" * size for size in sizes))
    batch.sealed(codec, None, transactional=False)
    parts, _ = split(batch, batch_size)
    assert 2 <= len(parts) <= len(sizes)
    found = []
    for part in parts:
        records = read_records(bytes(part.sealed(Codec.NONE, None, transactional=False)))
        assert part.count == len(records)
        found += [(record.timestamp, len(record.value or b"")) for record in records]
    assert found == [(100 + at, size) for at, size in enumerate(sizes)]


def test_records_of_a_split_batch_have_the_outcome_of_their_part() -> None:
    batch = closed_batch(b"a", b"b", b"c")
    sent = [Sent(batch, index, 100 + index) for index in range(3)]
    told: list[RecordMetadata | None] = []
    sent[2].on_delivery(lambda metadata, _: told.append(metadata))
    batch.sealed(Codec.NONE, None, transactional=False)
    parts, _ = split(batch, 1)
    batch.adopt_parts(parts)
    parts[0].complete(10)
    assert [one.done() for one in sent] == [True, False, False]
    assert sent[0].result() == RecordMetadata("t", 3, 10, 100)
    parts[1].fail(ValueError("b"))
    assert not batch.done
    parts[2].complete(11, 999)
    assert batch.done
    assert told == [RecordMetadata("t", 3, 11, 999)]
    with pytest.raises(ValueError, match="b"):
        sent[1].result()


def test_an_error_that_is_raised_often_does_not_grow() -> None:
    batch = closed_batch(b"a")
    batch.fail(ValueError("no"))
    sent = Sent(batch, 0, 5)
    depths = set()
    for _ in range(5):
        with pytest.raises(ValueError, match="no") as caught:
            sent.result()
        depths.add(len(caught.traceback))
    assert len(depths) == 1


def test_unseen_failures_are_remembered_up_to_a_limit() -> None:
    failures = Failures()
    for number in range(2 * REMEMBERED_MAX):
        batch = closed_batch(b"x")
        batch.fail(ValueError(number))
        failures.add(batch)
    with pytest.raises(DeliveryFailed, match=f"t-3 were not delivered: {REMEMBERED_MAX}"):
        failures.raise_unseen()
    failures.raise_unseen()


# Verdicts


def test_every_error_code_has_a_verdict() -> None:
    verdicts = {code: verdict_on_code(code, 5) for code in ErrorCode}
    assert verdicts[ErrorCode.DUPLICATE_SEQUENCE_NUMBER] is Verdict.DELIVERED
    assert verdicts[ErrorCode.MESSAGE_TOO_LARGE] is Verdict.SPLIT
    assert verdict_on_code(ErrorCode.MESSAGE_TOO_LARGE, 1) is Verdict.REFUSED
    for code, verdict in verdicts.items():
        if code.retriable:
            assert verdict is Verdict.RESEND


# Serializers


@given(st.text())
def test_text_comes_back(text: str) -> None:
    data = StringSerializer().serialize("t", text, [])
    assert StringDeserializer().deserialize("t", data, []) == text


@given(st.recursive(st.integers() | st.text() | st.booleans(), lambda inner: st.lists(inner)))
def test_json_comes_back(value: object) -> None:
    data = JsonSerializer().serialize("t", value, [])
    assert JsonDeserializer().deserialize("t", data, []) == value


def test_a_tombstone_stays_one() -> None:
    for serializer in (StringSerializer(), JsonSerializer()):
        assert serializer.serialize("t", None, []) is None
    for deserializer in (StringDeserializer(), JsonDeserializer()):
        assert deserializer.deserialize("t", None, []) is None
    for resolved in (serializer_of(str.upper, "x"), deserializer_of(str.upper, "x")):
        assert resolved is not None
        assert resolved("t", None, []) is None
        assert resolved("t", "a", []) == "A"


def test_what_is_no_serializer_is_refused() -> None:
    assert serializer_of(None, "key_serializer") is None
    with pytest.raises(BadSetting, match="key_serializer: 5 is neither a function"):
        serializer_of(5, "key_serializer")
    with pytest.raises(BadSetting, match="deserialize"):
        deserializer_of("x", "value_deserializer")
