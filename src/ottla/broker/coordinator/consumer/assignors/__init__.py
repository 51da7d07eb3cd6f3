"""Assignors: pure functions from members and partition counts to an assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.broker.coordinator.consumer.assignors.range import assign_range
from ottla.broker.coordinator.consumer.assignors.spec import Assignment, MemberSpec, Partitions
from ottla.broker.coordinator.consumer.assignors.uniform import assign_uniform

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], Assignment]

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""Assignors by the names used in `group.consumer.assignors` and by members."""

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "MemberSpec", "Partitions"]
