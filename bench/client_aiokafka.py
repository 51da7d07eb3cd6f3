"""aiokafka (asyncio, records in Cython) in the comparison of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench import client_job as common
from bench.client_job import Job, Measured, Method, Watch


async def send(job: Job, watch: Watch) -> Measured:
    producer = await _producer(job)
    chunk = common.chunk_of_values(job.size)
    topic = job.topic
    count = 0
    watch.start()
    while watch.goes_on(count):
        for value in chunk:
            await producer.send(topic, value)
        count += len(chunk)
    await producer.flush()
    measured = watch.stop(count)
    await producer.stop()
    return measured


async def send_batch(job: Job, watch: Watch) -> Measured:
    """Send batches that the application fills itself, partition by partition."""
    producer = await _producer(job)
    chunk = common.chunk_of_values(job.size)
    count = sent = 0
    batch = producer.create_batch()
    watch.start()
    while watch.goes_on(count):
        for value in chunk:
            if batch.append(key=None, value=value, timestamp=None) is None:
                await producer.send_batch(batch, job.topic, partition=sent % common.PARTITIONS)
                sent += 1
                batch = producer.create_batch()
                batch.append(key=None, value=value, timestamp=None)
        count += len(chunk)
    await producer.send_batch(batch, job.topic, partition=sent % common.PARTITIONS)
    await producer.flush()
    measured = watch.stop(count)
    await producer.stop()
    return measured


async def iterate(job: Job, watch: Watch) -> Measured:
    consumer = await _consumer(job)
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
    measured = watch.stop(count)
    await consumer.stop()
    return measured


async def getmany(job: Job, watch: Watch) -> Measured:
    consumer = await _consumer(job)
    count = total = 0
    while not watch.running or watch.goes_on(count):
        found = await consumer.getmany(timeout_ms=int(common.SILENCE_S * 1000))
        if not found:
            raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
        if not watch.running:
            watch.start()
            continue
        for records in found.values():
            for record in records:
                total += len(record.value)
            count += len(records)
    measured = watch.stop(count)
    await consumer.stop()
    return measured


async def _producer(job: Job) -> Any:
    producer = AIOKafkaProducer(
        bootstrap_servers=job.address,
        acks="all",
        enable_idempotence=True,
        linger_ms=common.LINGER_MS,
        max_batch_size=common.BATCH_BYTES,
        max_request_size=common.REQUEST_BYTES,
        compression_type=None if job.codec == "none" else job.codec,
    )
    await producer.start()
    await producer.send_and_wait(job.topic, b"first")
    return producer


async def _consumer(job: Job) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.address,
        enable_auto_commit=False,
        max_partition_fetch_bytes=common.PARTITION_FETCH_BYTES,
        fetch_max_bytes=common.FETCH_BYTES,
    )
    places = [TopicPartition(job.topic, place) for place in range(common.PARTITIONS)]
    await consumer.start()
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    return consumer


def _on_a_loop(work: Callable[[Job, Watch], Awaitable[Measured]]) -> Method:
    def run(job: Job, watch: Watch) -> Measured:
        async def main() -> Measured:
            return await work(job, watch)

        return asyncio.run(main())

    return run


METHODS: dict[str, Method] = {
    "send": _on_a_loop(send),
    "send_batch": _on_a_loop(send_batch),
    "iterate": _on_a_loop(iterate),
    "getmany": _on_a_loop(getmany),
}
