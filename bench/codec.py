"""Microseconds to encode and decode the messages of every produce and fetch.

    python bench/codec.py [SECONDS]

Each figure is the best of several runs, since disturbances only make a run slower. kio, which
decodes with native code and encodes with Python, is measured on the same bytes in the same run.
"""

from __future__ import annotations

import io
import sys
import timeit
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.protocol.codec import decoder, encoder
from ottla.protocol.headers import frame_response, read_request_header, request_header_bytes
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.schema import Message

RECORDS = bytes(range(256)) * 4
TOPIC_ID = bytes(range(16))
RUNS = 7


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2
    for title, version, message in messages():
        measure_message(title, version, message, seconds)
    header = request_header_bytes(0, 9, 1, "producer-1")
    show("request header, read", best(lambda: read_request_header(header, 0), seconds), None)
    show("response frame", best(lambda: frame_response(0, 9, 1, [RECORDS]), seconds), None)
    show("produce answer, build", best(lambda: produce_response("orders"), seconds), None)
    show("fetch answer, build", best(lambda: fetch_response("orders"), seconds), None)


def measure_message(title: str, version: int, message: Message, seconds: float) -> None:
    encode = encoder(type(message), version)
    decode = decoder(type(message), version)
    data = b"".join(encode(message))  # type: ignore[arg-type]
    load = load_request_schema if title.endswith("request") else load_response_schema
    theirs = load(message.API_KEY or 0, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    entity, _ = read(data, 0)
    view = memoryview(bytearray(data))

    def kio_encode() -> None:
        write(io.BytesIO(), entity)

    name = f"{title} v{version}"
    show(
        f"{name}, decode",
        best(lambda: decode(view, 0), seconds),
        best(lambda: read(data, 0), seconds),
    )
    show(f"{name}, encode", best(lambda: encode(message), seconds), best(kio_encode, seconds))


def messages() -> list[tuple[str, int, Message]]:
    return [
        ("Produce request", 9, produce_request("orders")),
        ("Produce request", 13, produce_request("")),
        ("Produce response", 9, produce_response("orders")),
        ("Produce response", 13, produce_response("")),
        ("Fetch request", 12, fetch_request("orders")),
        ("Fetch request", 17, fetch_request("")),
        ("Fetch response", 12, fetch_response("orders")),
        ("Fetch response", 17, fetch_response("")),
        ("Metadata (1000 partitions) response", 12, metadata_response()),
    ]


def produce_request(topic: str) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=RECORDS)
    topic_id = bytes(16) if topic else TOPIC_ID
    data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


def produce_response(topic: str) -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=3, error_code=0, base_offset=123_456, log_append_time_ms=-1, log_start_offset=0
    )
    topic_id = bytes(16) if topic else TOPIC_ID
    answer = TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[partition])
    return ProduceResponse(responses=[answer])


def fetch_request(topic: str) -> FetchRequest:
    partition = FetchPartition(
        partition=3, current_leader_epoch=5, fetch_offset=123_456, partition_max_bytes=1 << 20
    )
    topic_id = bytes(16) if topic else TOPIC_ID
    wanted = FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[wanted])


def fetch_response(topic: str) -> FetchResponse:
    partition = PartitionData(
        partition_index=3,
        high_watermark=123_457,
        last_stable_offset=123_457,
        log_start_offset=0,
        aborted_transactions=None,
        records=RECORDS,
    )
    topic_id = bytes(16) if topic else TOPIC_ID
    answer = FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=[partition])
    return FetchResponse(responses=[answer])


def metadata_response() -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=1,
            leader_epoch=2,
            replica_nodes=[1, 2, 3],
            isr_nodes=[1, 2, 3],
        )
        for index in range(1000)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="localhost", port=9092)],
        cluster_id="cluster",
        controller_id=1,
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)],
    )


def best(function: Callable[[], Any], seconds: float) -> float:
    """Return microseconds per call."""
    timer = timeit.Timer(function)
    count, _ = timer.autorange()
    count = max(1, int(count * seconds / RUNS / 0.2))
    return min(timer.repeat(RUNS, count)) / count * 1e6


def show(title: str, ours: float, kio: float | None) -> None:
    beside = "" if kio is None else f"   kio {kio:9.2f}   ratio {ours / kio:5.2f}"
    print(f"{title:48} {ours:9.2f} us{beside}")


if __name__ == "__main__":
    main()
