"""Finds assignors by name, and the rebalance protocol that a list of them allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.client.consumer.assignors.assignor import Assignor, RebalanceProtocol
from ottla.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from ottla.client.consumer.assignors.range_assignor import RangeAssignor
from ottla.client.consumer.assignors.round_robin import RoundRobinAssignor
from ottla.client.consumer.assignors.sticky import StickyAssignor
from ottla.client.errors import BadSetting

KNOWN: dict[str, Callable[[], Assignor]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}
_SETTING = "partition_assignment_strategy"


def assignors_of(strategy: Sequence[str | Assignor]) -> dict[str, Assignor]:
    """Return the assignors that a consumer offers to its group, the preferred one first."""
    if isinstance(strategy, str) or not strategy:
        raise BadSetting(_SETTING, f"{strategy!r} is not a list of assignors")
    chosen: dict[str, Assignor] = {}
    for one in strategy:
        assignor = _made(one)
        if assignor.name in chosen:
            raise BadSetting(_SETTING, f"{assignor.name!r} is there twice")
        chosen[assignor.name] = assignor
    protocol_of(chosen.values())
    return chosen


def _made(one: str | Assignor) -> Assignor:
    if not isinstance(one, str):
        return one
    if one not in KNOWN:
        raise BadSetting(_SETTING, f"{one!r} is none of: {', '.join(KNOWN)}")
    return KNOWN[one]()


def protocol_of(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """Return the best protocol that all of them support: which assignor the group will choose is
    not known in advance."""
    common: set[RebalanceProtocol] | None = None
    for one in assignors:
        common = set(one.protocols) if common is None else common & set(one.protocols)
    if not common:
        raise BadSetting(_SETTING, "the assignors have no rebalance protocol in common")
    return max(common)
