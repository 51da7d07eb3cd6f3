"""Metadata snapshots: which seeds take them often enough that a minute has some.

The metadata log is truncated up to them, so a node that was away, or has a new disk, fetches one.
"""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.sim.cluster.shape import Shape

STREAM = "snapshots"
"""Its own random stream: seeds without snapshots play as if it did not exist."""
RATE = 0.4


def with_snapshots(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with snapshots for some seeds, or as `wanted`."""
    drawn = chance.random() < RATE
    if not (drawn if wanted is None else wanted):
        return shape
    between_bytes = chance.choice((1500, 5000, 15_000))
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": str(between_bytes),
        "metadata.max.retention.bytes": str(between_bytes * chance.choice((1, 3))),
        "controller.quorum.fetch.snapshot.max.bytes": str(chance.choice((500, 1_000_000))),
    }
    return replace(shape, settings={**shape.settings, **settings})
