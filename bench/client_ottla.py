"""Ottla's own client in the comparison: record by record, in lists, and in columns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench import client_job as common
from bench.client_job import Job, Measured, Method, Watch
from ottla import Consumer, Producer, TopicPartition, blocking

_POLL_RECORDS = 10_000
_ROWS = 20_000
_SILENCE_MS = int(common.SILENCE_S * 1000)


async def send(job: Job, watch: Watch) -> Measured:
    async with Producer(**_producer_options(job)) as producer:
        await producer.send_and_wait(job.topic, b"first")
        chunk = common.chunk_of_values(job.size)
        topic = job.topic
        count = 0
        watch.start()
        while watch.goes_on(count):
            for value in chunk:
                await producer.send(topic, value)
            count += len(chunk)
        await producer.flush()
        return watch.stop(count)


async def send_arrow(job: Job, watch: Watch) -> Measured:
    async with Producer(**_producer_options(job)) as producer:
        await producer.send_and_wait(job.topic, b"first")
        some = common.chunk_of_values(job.size)
        rows = pa.record_batch({"value": pa.array(some * (_ROWS // len(some)), pa.binary())})
        count = 0
        watch.start()
        while watch.goes_on(count):
            await producer.send_arrow(job.topic, rows)
            count += rows.num_rows
        await producer.flush()
        return watch.stop(count)


def blocking_send(job: Job, watch: Watch) -> Measured:
    with blocking.Producer(**_producer_options(job)) as producer:
        producer.send_and_wait(job.topic, b"first")
        chunk = common.chunk_of_values(job.size)
        topic = job.topic
        count = 0
        watch.start()
        while watch.goes_on(count):
            for value in chunk:
                producer.send(topic, value)
            count += len(chunk)
        producer.flush()
        return watch.stop(count)


async def iterate(job: Job, watch: Watch) -> Measured:
    async with Consumer(**_consumer_options(job)) as consumer:
        consumer.assign(_places(job))
        number = count = total = 0
        async for record in consumer:
            total += len(record.value)
            if number % common.CHUNK == 0:
                if not watch.running:
                    watch.start()
                else:
                    count += common.CHUNK
                    if not watch.goes_on(count):
                        break
            number += 1
        return watch.stop(count)


async def poll(job: Job, watch: Watch) -> Measured:
    async with Consumer(**_consumer_options(job)) as consumer:
        consumer.assign(_places(job))
        count = total = 0
        while not watch.running or watch.goes_on(count):
            found = await consumer.poll(_SILENCE_MS)
            if not found:
                raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
            if not watch.running:
                watch.start()
                continue
            for records in found.values():
                for record in records:
                    total += len(record.value)
                count += len(records)
        return watch.stop(count)


async def fetch_arrow(job: Job, watch: Watch) -> Measured:
    async with Consumer(**_consumer_options(job)) as consumer:
        consumer.assign(_places(job))
        count = total = 0
        while not watch.running or watch.goes_on(count):
            rows = await consumer.fetch_arrow(_SILENCE_MS)
            if not rows.num_rows:
                raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
            if not watch.running:
                watch.start()
                continue
            total += pc.sum(pc.binary_length(rows["value"])).as_py()
            count += rows.num_rows
        return watch.stop(count)


def blocking_poll(job: Job, watch: Watch) -> Measured:
    with blocking.Consumer(**_consumer_options(job)) as consumer:
        consumer.assign(_places(job))
        count = total = 0
        while not watch.running or watch.goes_on(count):
            found = consumer.poll(_SILENCE_MS)
            if not found:
                raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
            if not watch.running:
                watch.start()
                continue
            for records in found.values():
                for record in records:
                    total += len(record.value)
                count += len(records)
        return watch.stop(count)


def blocking_iterate(job: Job, watch: Watch) -> Measured:
    with blocking.Consumer(**_consumer_options(job)) as consumer:
        consumer.assign(_places(job))
        count = total = 0
        for number, record in enumerate(consumer):
            total += len(record.value)
            if number % common.CHUNK == 0:
                if not watch.running:
                    watch.start()
                    continue
                count += common.CHUNK
                if not watch.goes_on(count):
                    break
        return watch.stop(count)


def _producer_options(job: Job) -> dict[str, Any]:
    return {
        "bootstrap_servers": job.address,
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": common.LINGER_MS,
        "batch_size": common.BATCH_BYTES,
        "max_request_size": common.REQUEST_BYTES,
        "buffer_memory": common.BUFFER_BYTES,
        "compression_type": job.codec,
    }


def _consumer_options(job: Job) -> dict[str, Any]:
    return {
        "bootstrap_servers": job.address,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "max_poll_records": _POLL_RECORDS,
        "max_partition_fetch_bytes": common.PARTITION_FETCH_BYTES,
        "fetch_max_bytes": common.FETCH_BYTES,
    }


def _places(job: Job) -> list[TopicPartition]:
    return [TopicPartition(job.topic, place) for place in range(common.PARTITIONS)]


def _on_a_loop(work: Callable[[Job, Watch], Awaitable[Measured]]) -> Method:
    def run(job: Job, watch: Watch) -> Measured:
        async def main() -> Measured:
            return await work(job, watch)

        return asyncio.run(main())

    return run


METHODS: dict[str, Method] = {
    "send": _on_a_loop(send),
    "send_arrow": _on_a_loop(send_arrow),
    "blocking send": blocking_send,
    "iterate": _on_a_loop(iterate),
    "poll": _on_a_loop(poll),
    "fetch_arrow": _on_a_loop(fetch_arrow),
    "blocking poll": blocking_poll,
    "blocking iterate": blocking_iterate,
}
