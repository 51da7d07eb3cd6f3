"""kafka-python (pure Python, blocking) in the comparison of clients."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench import client_job as common
from bench.client_job import Job, Measured, Method, Watch

_POLL_RECORDS = 10_000


def send(job: Job, watch: Watch) -> Measured:
    producer = KafkaProducer(
        bootstrap_servers=job.address,
        acks="all",
        enable_idempotence=True,
        linger_ms=common.LINGER_MS,
        batch_size=common.BATCH_BYTES,
        max_request_size=common.REQUEST_BYTES,
        compression_type=None if job.codec == "none" else job.codec,
    )
    producer.send(job.topic, b"first").get(30)
    chunk = common.chunk_of_values(job.size)
    topic = job.topic
    count = 0
    watch.start()
    while watch.goes_on(count):
        for value in chunk:
            producer.send(topic, value)
        count += len(chunk)
    producer.flush(120)
    measured = watch.stop(count)
    producer.close()
    return measured


def iterate(job: Job, watch: Watch) -> Measured:
    consumer = _consumer(job)
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
    measured = watch.stop(count)
    consumer.close()
    return measured


def poll(job: Job, watch: Watch) -> Measured:
    consumer = _consumer(job)
    count = total = 0
    while not watch.running or watch.goes_on(count):
        found = consumer.poll(timeout_ms=int(common.SILENCE_S * 1000))
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
    consumer.close()
    return measured


def _consumer(job: Job) -> Any:
    consumer = KafkaConsumer(
        bootstrap_servers=job.address,
        enable_auto_commit=False,
        max_poll_records=_POLL_RECORDS,
        max_partition_fetch_bytes=common.PARTITION_FETCH_BYTES,
        fetch_max_bytes=common.FETCH_BYTES,
    )
    places = [TopicPartition(job.topic, place) for place in range(common.PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    return consumer


METHODS: dict[str, Method] = {"send": send, "iterate": iterate, "poll": poll}
