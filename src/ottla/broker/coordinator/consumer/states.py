"""The states of a consumer group."""

from __future__ import annotations

from enum import Enum


class ConsumerGroupState(Enum):
    """The values are the names that clients and tools use."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its epoch was bumped, and there is no target for it yet."""
    RECONCILING = "Reconciling"
    """Not all members have reached their target."""
    STABLE = "Stable"
    DEAD = "Dead"
