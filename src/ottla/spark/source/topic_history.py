"""Decides by its id whether a topic is still the one that was read before. Pure.

Ids are stored with the offsets in Spark's checkpoints. If they are unknown, as in a checkpoint of
Spark's own connector, a topic that ends before the last position counts as created again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.values import TopicPartition
from ottla.protocol.uuids import ZERO_UUID
from ottla.spark.source.offsets import Offsets


@dataclass(frozen=True)
class TopicHistory:
    ids: Mapping[str, bytes] = field(default_factory=dict)
    """Topic ids by name, at the end of the previous batch."""
    anew: frozenset[str] = frozenset()
    """Topics with another id than in the previous batch,"""
    same: frozenset[str] = frozenset()
    """and with the same id. For others it is unknown."""

    def seen(self, ids: Mapping[str, bytes]) -> TopicHistory:
        before = {name: self.ids.get(name, ZERO_UUID) for name in ids}
        told = [name for name, now in ids.items() if ZERO_UUID not in (now, before[name])]
        return TopicHistory(
            {**self.ids, **ids},
            anew=frozenset(name for name in told if before[name] != ids[name]),
            same=frozenset(name for name in told if before[name] == ids[name]),
        )

    def ends(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Return where a batch may end. For a topic created again, first before the old position:
        an end before the start makes the planner, now or later, read from the earliest record."""
        return {
            one: min(end, begin[one] - 1)
            if one.topic in self.anew and begin.get(one, 0) > 0
            else end
            for one, end in latest.items()
        }

    def truncated(self, begin: Offsets, until: Offsets) -> set[TopicPartition]:
        """Return partitions of the same topic that end before the start: the newest records are
        lost, as when a replica without them became leader, and the others have been read."""
        return {
            one for one, end in until.items() if begin.get(one, 0) > end and one.topic in self.same
        }
