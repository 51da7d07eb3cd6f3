"""Whether a topic is still the one that was read before, as its id tells. Pure.

Ids are kept with the offsets in Spark's checkpoints. Where they are not known, as in a checkpoint
of Spark's own connector, a topic that ends before the place where reading stood is taken for one
made anew.
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
    """By name, of topics as they were at the end of the batch before."""
    anew: frozenset[str] = frozenset()
    """Topics of another id than for the batch before,"""
    same: frozenset[str] = frozenset()
    """and of the same id. Of others it is not known."""

    def seen(self, ids: Mapping[str, bytes]) -> TopicHistory:
        before = {name: self.ids.get(name, ZERO_UUID) for name in ids}
        told = [name for name, now in ids.items() if ZERO_UUID not in (now, before[name])]
        return TopicHistory(
            {**self.ids, **ids},
            anew=frozenset(name for name in told if before[name] != ids[name]),
            same=frozenset(name for name in told if before[name] == ids[name]),
        )

    def ends(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Where a batch may go. Of a topic made anew first to before the old place: an end before
        the start tells whoever plans the batch, now or again, to read from the earliest record."""
        return {
            one: min(end, begin[one] - 1)
            if one.topic in self.anew and begin.get(one, 0) > 0
            else end
            for one, end in latest.items()
        }

    def truncated(self, begin: Offsets, until: Offsets) -> set[TopicPartition]:
        """Partitions of the same topic as before that end before the start: the newest records are
        lost, as when a replica leads that did not have them, and the others have been read."""
        return {
            one for one, end in until.items() if begin.get(one, 0) > end and one.topic in self.same
        }
