"""The states of a consumer group."""

from __future__ import annotations

from enum import Enum


class ConsumerGroupState(Enum):
    """The values are the names that clients and tools know."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its epoch grew, and there is no target for it yet."""
    RECONCILING = "Reconciling"
    """Not all members have what the target gives them."""
    STABLE = "Stable"
    DEAD = "Dead"
