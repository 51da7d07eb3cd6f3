"""A quorum whose voters can change (KIP-853): which seeds have one, and its first voters."""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.sim.cluster.shape import Shape

STREAM = "voters"
"""Its own random stream: seeds without a dynamic quorum play as if it did not exist."""
RATE = 0.45
"""The share of seeds with a dynamic quorum, among those with at least `CONTROLLERS_MIN`
controllers."""
CONTROLLERS_MIN = 3
AUTO_JOIN_RATE = 0.3


def with_voters(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with voters that can change for some seeds, or as `wanted`."""
    drawn = chance.random() < RATE
    controllers = [node.id for node in shape.controllers]
    if len(controllers) < CONTROLLERS_MIN or not (drawn if wanted is None else wanted):
        return shape
    count = chance.choice((1, len(controllers), len(controllers)))
    auto_join = str(chance.random() < AUTO_JOIN_RATE).lower()
    return replace(
        shape,
        first_voters=tuple(sorted(chance.sample(controllers, count))),
        settings={**shape.settings, "controller.quorum.auto.join.enable": auto_join},
    )
