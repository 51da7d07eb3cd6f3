"""The states of a classic group, and the transitions between them.

from \\ to               Empty  Preparing  Completing  Stable  Dead
Empty                     .       join         .          .     x
PreparingRebalance      nobody     .        joined        .     x
CompletingRebalance       .      changed       .        synced  x
Stable                    .      changed       .          .     x

join     a first member joins; the group waits a while for more
joined   all members rejoined, or the time for it is over: a new generation begins
nobody   the same, but no member is left
synced   the leader sent the assignment
changed  a member joined, left, timed out or changed its metadata; or the leader rejoins
x        the group is deleted, becomes a consumer group, or moves to another coordinator
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The values are the names that clients and tools use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS_STATES: Final = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}
