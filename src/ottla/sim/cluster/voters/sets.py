"""The voter sets that a run has committed, collected from the nodes.

Any majorities of two sets that differ by one voter have a voter in common, so they cannot elect two
leaders, nor one without the records that the other committed. With sets further apart they can.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from ottla.broker.quorum.quorum import Quorum
from ottla.broker.raft.voters.voters import VoterSet
from ottla.sim.history import Violation

FORMATTED = -1

Known = tuple[int, VoterSet]
"""The offset of the voter set's record, and the set."""


class VoterSets:
    def __init__(self) -> None:
        self._sets: dict[int, VoterSet] = {}
        """By the offset of the record."""
        self._end = 0
        """All voter sets before this offset are known."""
        self._seen: dict[str, tuple[int, int]] = {}
        """For each process, the part of its log that was checked: (start, end)."""

    @property
    def changes(self) -> int:
        """Number of sets that were committed after the first one."""
        return max(0, len(self._sets) - 1)

    def look(self, who: str, quorum: Quorum) -> None:
        """Check that this node's committed sets are consistent with each other and with others'."""
        start, end = quorum.log.start_offset, quorum.high_watermark
        if self._seen.get(who) == (start, end):
            return
        self._seen[who] = (start, end)
        self.check(who, start, end, _committed(quorum, end))

    def check(self, who: str, start: int, end: int, timeline: list[Known]) -> None:
        """Check the sets before `end`; one from before `start`, if any, is in a snapshot."""
        for before, after in pairwise(timeline):
            _differ_by_one(who, before, after)
        # Otherwise the node knows from a snapshot what no other node has shown yet.
        if start <= self._end:
            self._compare(who, start, end, dict(timeline))

    def _compare(self, who: str, start: int, end: int, own: dict[int, VoterSet]) -> None:
        """Compare the node's sets with the known ones. A set from formatting has no offset and is
        skipped: only the formatted nodes have it."""
        own.pop(FORMATTED, None)
        self._sets.update({at: voters for at, voters in own.items() if at >= self._end})
        self._end = max(self._end, end)
        for offset in sorted(own.keys() | {at for at in self._sets if start <= at < end}):
            if own.get(offset) != (known := self._counting_at(offset)):
                raise Violation(f"{who} has voters {own.get(offset)} at {offset}, others {known}")

    def _counting_at(self, offset: int) -> VoterSet | None:
        """Return the last set up to this offset, which a snapshot that ends there must contain."""
        offsets = sorted(self._sets)
        index = bisect_right(offsets, offset) - 1
        return self._sets[offsets[index]] if index >= 0 else None


def _committed(quorum: Quorum, end: int) -> list[Known]:
    return [known for known in quorum.core.voter_sets() if known[0] < end]


def _differ_by_one(who: str, before: Known, after: Known) -> None:
    one, other = ({voter.key for voter in voters} for _, voters in (before, after))
    if len(one ^ other) > 1:
        raise Violation(f"{who}: more than one voter changed from {before} to {after}")
