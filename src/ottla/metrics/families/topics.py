"""Records and bytes that clients sent and got, by topic and together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.metrics.exposition import COUNTER, Family, Sample, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.server.figures.topics import TopicCounts, TopicFigures

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_COUNTS: Final = (
    ("messagesin", "messages_in", "Records that clients sent"),
    ("bytesin", "bytes_in", "Bytes of records that clients sent"),
    ("bytesout", "bytes_out", "Bytes of records that clients got"),
    ("bytesrejected", "bytes_rejected", "Bytes of batches that were too large"),
    ("replicationbytesout", "replication_bytes_out", "Bytes of records that followers got"),
    ("totalproducerequests", "produces", "Batches that clients sent"),
    ("totalfetchrequests", "fetches", "Partitions that clients and followers asked for"),
    ("failedproducerequests", "failed_produces", "Batches refused by a failure of the broker"),
    ("failedfetchrequests", "failed_fetches", "Partitions not read by a failure of the broker"),
)


def topic_families(figures: TopicFigures, image: MetadataImage) -> Families:
    """Each family has a sample of all topics, without a label, and one of each topic."""
    figures.keep_only(image.topics)
    total = figures.total()
    each = [(labels(topic=name), counts) for name, counts in figures.by_topic.items()]
    yield None
    for name, attribute, text in _COUNTS:
        yield Family(f"{_TOPICS}{name}_total", COUNTER, text, _of(attribute, total, each))


def _of(
    attribute: str, total: TopicCounts, each: list[tuple[str, TopicCounts]]
) -> Iterator[Sample]:
    yield "", getattr(total, attribute)
    for text, counts in each:
        yield text, getattr(counts, attribute)
