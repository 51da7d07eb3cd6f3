"""Metadata records as batches of the log: their size limits, encoding and decoding."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from ottla.broker.metadata.records import decode_record, encode_record
from ottla.buffers import Buffer
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.protocol.schema import Message
from ottla.records.builder import seal_payload
from ottla.records.engine import PayloadWriter
from ottla.records.reader import iter_records

BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_MAX = 8 * 1024 * 1024


def split(values: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Split the records of one append into batches that are no larger than the limits."""
    part: list[bytes] = []
    size = 0
    for value in values:
        if part and (len(part) == BATCH_RECORDS_MAX or size + len(value) > BATCH_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(value)
        size += len(value)
    if part:
        yield part


def encode_batch(values: Iterable[bytes], timestamp_ms: int) -> bytes:
    """Encode a batch; the log sets offsets and epoch."""
    writer = PayloadWriter()
    for value in values:
        writer.append(timestamp_ms, None, value)
    return bytes(seal_payload(writer))


def encode_in_steps(
    records: Sequence[Message], timestamp_ms: int
) -> Generator[None, None, list[bytes]]:
    """Return batches with these records, with a pause after each step."""
    values = []
    for record in records:
        values.append(encode_record(record))
        yield
    encoded = []
    for part in split(values):
        encoded.append(encode_batch(part, timestamp_ms))
        yield
    return encoded


def decode_batch(batch: Buffer) -> Iterator[Message]:
    for record in iter_records(batch):
        yield decode_record(record.value or b"")


def metadata_topic_config(config: BrokerConfig) -> TopicConfig:
    """Return the config of the metadata log. Its segments are deleted when a snapshot covers
    them."""
    overrides: dict[str, Any] = {
        "segment.bytes": config["metadata.log.segment.bytes"],
        "segment.ms": config["metadata.log.segment.ms"],
        "max.message.bytes": 2 * BATCH_BYTES_MAX,
        "cleanup.policy": "delete",
        "retention.ms": -1,
        "retention.bytes": -1,
    }
    return TopicConfig.build(config, {key: str(value) for key, value in overrides.items()})
