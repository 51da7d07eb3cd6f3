"""Metadata records as batches of the log: how large they may be, and how they are read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ottla.buffers import Buffer
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.metadata.records import decode_record
from ottla.protocol.schema import Message
from ottla.records.builder import Record, build_batch
from ottla.records.reader import read_records

BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_MAX = 8 * 1024 * 1024


def split(values: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut the records of one append into batches no larger than readers are promised."""
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


def encode_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Offsets and epoch are set by the log."""
    return build_batch([Record(i, timestamp_ms, None, v, ()) for i, v in enumerate(values)])


def decode_batch(batch: Buffer) -> list[Message]:
    return [decode_record(record.value or b"") for record in read_records(batch)]


def metadata_topic_config(config: BrokerConfig) -> TopicConfig:
    """How the metadata log is cut into segments. They go when a snapshot stands for them."""
    overrides: dict[str, Any] = {
        "segment.bytes": config["metadata.log.segment.bytes"],
        "segment.ms": config["metadata.log.segment.ms"],
        "max.message.bytes": 2 * BATCH_BYTES_MAX,
        "cleanup.policy": "delete",
        "retention.ms": -1,
        "retention.bytes": -1,
    }
    return TopicConfig.build(config, {key: str(value) for key, value in overrides.items()})
