"""The topic of decisions: made when it is missing, read where a decision is, searched for one.

Compacted by application, so it holds little more than one record of each.
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
"""All are in one: the number of partitions may be changed by whoever likes to."""
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(8 << 20),
}
POLL_MS: Final = 50
READ_S: Final = 60


async def ensure(cluster: Cluster, topic: str) -> None:
    """Make the topic if there is none. Brokers are asked each time: it may have been deleted."""
    try:
        await cluster.topic(topic)
    except TopicMissing:
        await _create(cluster, topic)


async def _create(cluster: Cluster, topic: str) -> None:
    try:
        await Admin.over(cluster).create_topic(topic, partitions=1, configs=CONFIGS)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another driver was quicker
            error.add_note(
                f"The sink keeps its decisions in {topic!r}: make it with cleanup.policy=compact, "
                "or name another topic in the option decisionsTopic"
            )
            raise
    await _appearance(cluster, topic)


async def _appearance(cluster: Cluster, topic: str) -> None:
    """Brokers get to know of a topic one after another, and after its creation was answered."""
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
    """The decision at an offset that was committed with it, so that it is committed, too: others
    that are open before it need not be waited for. None if it is not there any more."""
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
    """The last one of an application, and where it is; reads all there is."""
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
    # Loaded when it is needed, which is after a crash: every worker of Spark would load it.
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
    """All before `end`; what stands there may also be the end of a transaction, and no record."""
    found: list[AnyRecord] = []
    async with asyncio.timeout(READ_S):
        while await reader.position(place) < end:
            for records in (await reader.poll(POLL_MS)).values():
                found += records
    return found


def _is_of(record: AnyRecord, app: str) -> bool:
    return bool(record.key == app.encode() and record.value is not None)
