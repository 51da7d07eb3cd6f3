"""Log compaction: which seeds have it, and with which settings."""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.broker.metadata.image import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.sim.cluster.shape import Shape, TopicShape

STREAM = "compaction"
"""Its own random stream: seeds without compaction play as if it did not exist."""
RATE = 0.4
"""The share of seeds with compaction, which takes time from other faults."""
LANE_BYTES = 2**20 + 24
"""Memory of each lane of the cleaner: the minimum, because it is zeroed every time."""
INTERNAL_TOPICS = {
    GROUPS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


def with_compaction(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with a cleaner for some seeds, or as `wanted`. It compacts a table, the
    offsets of groups and the state of transactions."""
    drawn = chance.random() < RATE
    if not (drawn if wanted is None else wanted):
        return shape
    lanes = chance.choice((1, 1, 2))
    settings = {
        "log.cleaner.enable": "true",
        "log.cleaner.threads": str(lanes),
        "log.cleaner.dedupe.buffer.size": str(lanes * LANE_BYTES),
        "log.cleaner.backoff.ms": str(chance.choice((200, 1000, 4000))),
        "log.cleaner.min.cleanable.ratio": str(chance.choice((0.01, 0.2, 0.5))),
    }
    table = TopicShape(
        "table", chance.randint(1, 2), _compacted(chance), keys=chance.choice((3, 10, 30))
    )
    internal = tuple(
        TopicShape(name, int(shape.settings[count]), _compacted(chance))
        for name, count in INTERNAL_TOPICS.items()
    )
    return replace(shape, settings={**shape.settings, **settings}, table=table, internal=internal)


def _compacted(chance: random.Random) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(chance.choice((6000, 15_000))),
        "index.interval.bytes": str(chance.choice((500, 4096))),
    }
