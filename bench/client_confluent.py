"""confluent-kafka (librdkafka, in C) in the comparison of clients."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench import client_job as common
from bench.client_job import Job, Measured, Method, Watch

_QUEUE_RECORDS = 2_000_000
_CONSUME_RECORDS = 10_000


def produce(job: Job, watch: Watch) -> Measured:
    """Produce as in its documentation: `produce`, and `poll` now and then."""
    producer = _producer(job)
    chunk = common.chunk_of_values(job.size)
    topic = job.topic
    count = 0
    watch.start()
    while watch.goes_on(count):
        for value in chunk:
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        count += len(chunk)
    _flush(producer)
    return watch.stop(count)


def produce_batch(job: Job, watch: Watch) -> Measured:
    """Produce a list of records per call: less documented, and its fastest way."""
    producer = _producer(job)
    chunk = [{"value": value} for value in common.chunk_of_values(job.size)]
    topic = job.topic
    count = 0
    watch.start()
    while watch.goes_on(count):
        taken = producer.produce_batch(topic, chunk)
        count += taken
        while taken < len(chunk):
            producer.poll(0.01)
            # The queue was full: send as many again as were refused.
            more = producer.produce_batch(topic, chunk[taken:])
            taken += more
            count += more
        producer.poll(0)
    _flush(producer)
    return watch.stop(count)


def consume(job: Job, watch: Watch) -> Measured:
    """Consume lists of records: the faster of its two ways to read."""
    consumer = _consumer(job)
    count = total = 0
    while not watch.running or watch.goes_on(count):
        messages = consumer.consume(_CONSUME_RECORDS, common.SILENCE_S)
        if not messages:
            raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
        if not watch.running:
            watch.start()
            continue
        for message in messages:
            total += len(message.value() or b"")
        count += len(messages)
    measured = watch.stop(count)
    consumer.close()
    return measured


def poll(job: Job, watch: Watch) -> Measured:
    """Consume one record per call, as most programs do."""
    consumer = _consumer(job)
    count = total = 0
    while not watch.running or watch.goes_on(count):
        for _ in range(common.CHUNK):
            message = consumer.poll(common.SILENCE_S)
            if message is None:
                raise RuntimeError(f"no record for {common.SILENCE_S} s after {count}")
            total += len(message.value() or b"")
        if watch.running:
            count += common.CHUNK
        else:
            watch.start()
    measured = watch.stop(count)
    consumer.close()
    return measured


def _producer(job: Job) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": job.address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": common.LINGER_MS,
            "batch.size": common.BATCH_BYTES,
            "batch.num.messages": _QUEUE_RECORDS // 2,
            "message.max.bytes": common.REQUEST_BYTES,
            "queue.buffering.max.kbytes": common.BUFFER_BYTES >> 10,
            "queue.buffering.max.messages": _QUEUE_RECORDS,
            "compression.type": job.codec,
        }
    )
    producer.produce(job.topic, b"first")
    _flush(producer)
    return producer


def _flush(producer: Producer) -> None:
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records were not acknowledged within 60 s")


def _consumer(job: Job) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": job.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": common.PARTITION_FETCH_BYTES,
            "fetch.max.bytes": common.FETCH_BYTES,
            # With the default it sometimes pauses for a second at 100,000 queued records.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    places = range(common.PARTITIONS)
    consumer.assign([TopicPartition(job.topic, place, OFFSET_BEGINNING) for place in places])
    return consumer


METHODS: dict[str, Method] = {
    "produce": produce,
    "produce_batch": produce_batch,
    "consume": consume,
    "poll": poll,
}
