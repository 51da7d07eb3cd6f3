"""`ottla consume --group`: reads records as a member of a group, which shares the partitions and
keeps the committed offsets. Records that were printed are committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Unpack

from ottla.cli.output import print_note
from ottla.cli.topics.reading import FOLLOWING_WAIT_MS, Health, IdleLimit
from ottla.client.consumer.consumer import Consumer

if TYPE_CHECKING:
    from ottla.client.consumer.interceptors import Records
    from ottla.client.network.cluster import Cluster
    from ottla.client.settings.consumer import ConsumerOptions
    from ottla.client.values import TopicPartition

RECORDS_A_POLL_MAX = 10_000


class GroupReading(NamedTuple):
    topic: str
    group: str
    reset: str
    """Where to begin in a partition for which the group has committed nothing."""
    follow: bool
    records_max: int | None


async def read_as_member(
    cluster: Cluster, wanted: GroupReading, idle: IdleLimit, **options: Unpack[ConsumerOptions]
) -> AsyncGenerator[Records, None]:
    """Yield records to print, until there are enough, the end is reached, or none has come for as
    long as `idle` allows. Records count as printed when the next ones are requested."""
    await cluster.topic(wanted.topic)
    options["group_id"] = wanted.group
    options["auto_offset_reset"] = wanted.reset
    options["enable_auto_commit"] = False
    options["allow_auto_create_topics"] = False
    async with Consumer.over(cluster, **options) as consumer:
        consumer.subscribe([wanted.topic])
        health = Health(cluster, wanted.topic)
        end = _End(cluster, consumer)
        left = wanted.records_max
        idle.restart()
        while left is None or left > 0:
            limit = RECORDS_A_POLL_MAX if left is None else min(left, RECORDS_A_POLL_MAX)
            wait_ms = FOLLOWING_WAIT_MS if wanted.follow else 100
            found = await consumer.poll(idle.shorten_ms(wait_ms), limit)
            if found:
                yield found
                await consumer.commit({one: own[-1].offset + 1 for one, own in found.items()})
                left = None if left is None else left - sum(map(len, found.values()))
                idle.restart()
            elif idle.is_over():
                health.raise_failure()
                return
            else:
                health.check()
                if not wanted.follow and await end.is_reached():
                    return


class _End:
    """Where the partitions ended when this consumer got them."""

    def __init__(self, cluster: Cluster, consumer: Consumer) -> None:
        self._consumer = consumer
        self._now = cluster.runtime.clock.now
        self._give_up_at = self._now() + cluster.retry_within_ms / 1000
        self._ends: Mapping[TopicPartition, int] = {}

    async def is_reached(self) -> bool:
        assigned = self._consumer.assignment()
        if not assigned:
            if self._now() > self._give_up_at:
                print_note("ottla: the group has given this consumer no partition; others have all")
                return True
            return False
        if new := assigned - self._ends.keys():
            self._ends = {**self._ends, **await self._consumer.end_offsets(new)}
        for one in assigned:
            if await self._consumer.position(one) < self._ends[one]:
                return False
        return True
