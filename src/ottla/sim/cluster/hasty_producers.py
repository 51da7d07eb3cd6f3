"""Transactions that follow each other at once, on brokers that wait only briefly for markers.

A client gets the answer to EndTxn when the outcome is decided, before the markers are written. Its
next requests meet those markers: leaders hold its batches back while they wait for them, and its
next EndTxn may arrive before they are written.
"""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.sim.cluster.shape import Shape

STREAM = "haste"
"""Its own random stream; seeds depend on this name."""
RATE = 0.4
PATIENCE_MS = (0, 20, 100)


def with_hasty_producers(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with hasty producers for some seeds, or as `wanted`."""
    is_drawn = chance.random() < RATE
    if not (is_drawn if wanted is None else wanted):
        return shape
    patience_ms = chance.choice(PATIENCE_MS)
    limits = {"add.partitions.to.txn.retry.backoff.max.ms": str(patience_ms)}
    return replace(shape, hasty=True, settings={**shape.settings, **limits})
