"""Who shall read what: pure functions from members and partition counts to an assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.coordinator.consumer.assignors.range import assign_range
from ottla.coordinator.consumer.assignors.spec import Assignment, MemberSpec, Partitions
from ottla.coordinator.consumer.assignors.uniform import assign_uniform

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], Assignment]

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""By the name that `group.consumer.assignors` and the members of a group use."""

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "MemberSpec", "Partitions"]
