"""The topics of a scenario, each with settings drawn from the seed and the history of its logs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.sim.history import PartitionHistory


@dataclass
class SimTopic:
    name: str
    configs: dict[str, str]
    partitions: list[PartitionHistory]
    topic_id: bytes = b""
    """Empty until the creation is acknowledged."""


def drawn_topic(number: int, chance: random.Random, broker_flush: int | None) -> SimTopic:
    configs = {
        "internal.segment.bytes": str(chance.choice((25_000, 25_000, 200_000))),
        "index.interval.bytes": str(chance.choice((0, 500, 4096))),
        "segment.index.bytes": str(chance.choice((256, 4096))),
    }
    flush_messages = chance.choice((broker_flush, broker_flush, 1, 1, 3, 20))
    if flush_messages != broker_flush:
        configs["flush.messages"] = str(flush_messages)
    if chance.random() < 0.3:
        configs["flush.ms"] = str(chance.choice((50, 1000)))
    if chance.random() < 0.3:
        configs["segment.ms"] = str(chance.choice((100, 1500)))
    if chance.random() < 0.3:
        configs["compression.type"] = chance.choice(("zstd", "gzip", "uncompressed"))
    if chance.random() < 0.3:
        configs["message.timestamp.type"] = "LogAppendTime"
    name = f"topic-{number}"
    partitions = [
        PartitionHistory(f"{name}-{index}", flush_messages) for index in range(chance.randint(1, 3))
    ]
    return SimTopic(name, configs, partitions)
