"""The topic of decisions: creates it if it is missing, reads a decision, searches for one.

It is compacted by application, so it holds little more than one record of each.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.client.admin.admin import Admin
from ottla.client.errors import OffsetOutOfRange, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.values import AnyRecord, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.sink.decisions import Decision

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

PARTITION: Final = 0
"""All decisions are in one partition, because anyone may change the number of partitions."""
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(8 << 20),
}
POLL_MS: Final = 50
READ_S: Final = 60


async def ensure(cluster: Cluster, topic: str) -> None:
    """Create the topic if it is missing. Brokers are asked each time: it may have been deleted."""
    try:
        await cluster.topic(topic)
    except TopicMissing:
        await _create(cluster, topic)


async def _create(cluster: Cluster, topic: str) -> None:
    try:
        await Admin.over(cluster).create_topic(topic, partitions=1, configs=CONFIGS)
    except KafkaError as error:
        # TOPIC_ALREADY_EXISTS: another driver was quicker.
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            error.add_note(
                f"The sink keeps its decisions in {topic!r}: make it with cleanup.policy=compact, "
                "or name another topic in the option decisionsTopic"
            )
            raise
    await _appearance(cluster, topic)


async def _appearance(cluster: Cluster, topic: str) -> None:
    """Wait until brokers know the topic: they learn of it one by one, after its creation."""
    pauses = cluster.backoff()
    while True:
        try:
            await cluster.topic(topic)
        except TopicMissing:
            if not await pauses.pause():
                raise
        else:
            return


async def read(cluster: Cluster, topic: str, app: str, offset: int) -> Decision | None:
    """Return the decision at an offset; None if it no longer exists. The offset was committed
    together with the decision, so open transactions before it need not be waited for."""
    if not await _is_there(cluster, topic):
        return None
    place = TopicPartition(topic, PARTITION)
    async with _reader(cluster, committed=False) as reader:
        reader.assign([place])
        reader.seek(place, offset)
        try:
            records = await _records_until(reader, place, offset + 1)
        except OffsetOutOfRange:
            return None
    found = [record for record in records if record.offset == offset and _is_of(record, app)]
    return Decision.parse(found[0].value.decode()) if found else None


async def search(cluster: Cluster, topic: str, app: str) -> tuple[Decision, int] | None:
    """Return the last decision of an application and its offset; this reads the whole topic."""
    if not await _is_there(cluster, topic):
        return None
    place = TopicPartition(topic, PARTITION)
    async with _reader(cluster, committed=True) as reader:
        reader.assign([place])
        end = (await reader.end_offsets([place]))[place]
        reader.seek_to_beginning(place)
        own = [one for one in await _records_until(reader, place, end) if _is_of(one, app)]
    return (Decision.parse(own[-1].value.decode()), own[-1].offset) if own else None


def _reader(cluster: Cluster, *, committed: bool) -> Consumer:
    # Imported only when needed, which is after a crash: every worker of Spark would import it.
    from ottla.client.consumer.consumer import Consumer

    if committed:
        return Consumer.over(
            cluster, isolation_level="read_committed", auto_offset_reset="earliest"
        )
    return Consumer.over(cluster, isolation_level="read_uncommitted", auto_offset_reset="none")


async def _is_there(cluster: Cluster, topic: str) -> bool:
    try:
        await cluster.topic(topic)
    except TopicMissing:
        return False
    return True


async def _records_until(reader: Consumer, place: TopicPartition, end: int) -> list[AnyRecord]:
    """Return all records before `end`. The last offset may be a transaction marker, no record."""
    found: list[AnyRecord] = []
    async with asyncio.timeout(READ_S):
        while await reader.position(place) < end:
            for records in (await reader.poll(POLL_MS)).values():
                found += records
    return found


def _is_of(record: AnyRecord, app: str) -> bool:
    return bool(record.key == app.encode() and record.value is not None)
