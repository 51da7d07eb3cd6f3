"""Counts what metadata changes mean: ISRs that shrank or grew, unclean elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.metadata.delta import MetadataDelta
    from ottla.broker.metadata.image import MetadataImage, PartitionImage


class MetadataChanges:
    """Subscribe `metadata_changed`. ISRs count if this node leads the partition, elections if it is
    the active controller."""

    def __init__(self, node_id: int) -> None:
        self.shrinks = 0
        self.expansions = 0
        self.unclean_elections = 0
        self._node_id = node_id

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for change in delta.changed.values():
            for index in change.partitions:
                before = change.before.partitions.get(index)
                if before is not None:
                    self._changed(before, change.after.partitions[index])

    def _changed(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader == self._node_id:
            self.shrinks += len(after.isr) < len(before.isr)
            self.expansions += len(after.isr) > len(before.isr)
        if is_unclean(before, after):
            self.unclean_elections += 1


def is_unclean(before: PartitionImage, after: PartitionImage) -> bool:
    """True if a replica was elected that may lack committed records."""
    is_elected = after.leader >= 0 and after.leader != before.leader
    clean = (*before.isr, *before.eligible_leader_replicas)
    return is_elected and after.leader not in clean
