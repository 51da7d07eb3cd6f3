"""The sets of voters that a run has committed, as the nodes show them bit by bit.

Any majorities of two sets that differ by one voter have a voter in common, so that they cannot
elect two leaders, nor one without what the other had committed. Those of sets further apart can.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from ottla.quorum.quorum import Quorum
from ottla.raft.voters import VoterSet
from ottla.sim.history import Violation

FORMATTED = -1

Known = tuple[int, VoterSet]
"""Where it is in the log, and the set."""


class VoterSets:
    def __init__(self) -> None:
        self._sets: dict[int, VoterSet] = {}
        """By the offset of the record."""
        self._end = 0
        """All before this offset are known."""
        self._seen: dict[str, tuple[int, int]] = {}
        """For each process, from where to where its log was looked at."""

    @property
    def changes(self) -> int:
        """How many were committed after the first set."""
        return max(0, len(self._sets) - 1)

    def look(self, who: str, quorum: Quorum) -> None:
        """What this node knows to be committed fits together, and to what others know."""
        start, end = quorum.log.start_offset, quorum.high_watermark
        if self._seen.get(who) == (start, end):
            return
        self._seen[who] = (start, end)
        self.check(who, start, end, [known for known in _timeline(quorum) if known[0] < end])

    def check(self, who: str, start: int, end: int, timeline: list[Known]) -> None:
        """The sets before `end`; one from before `start`, if any, stands in a snapshot."""
        for before, after in pairwise(timeline):
            _differ_by_one(who, before, after)
        if start <= self._end:  # else it knows only by a snapshot what nobody has shown yet
            self._compare(who, start, end, dict(timeline))

    def _compare(self, who: str, start: int, end: int, own: dict[int, VoterSet]) -> None:
        """A set that formatting left is at no offset, and only where it was left."""
        own.pop(FORMATTED, None)
        self._sets.update({at: voters for at, voters in own.items() if at >= self._end})
        self._end = max(self._end, end)
        for offset in sorted(own.keys() | {at for at in self._sets if start <= at < end}):
            if own.get(offset) != (known := self._counting_at(offset)):
                raise Violation(f"{who} has voters {own.get(offset)} at {offset}, others {known}")

    def _counting_at(self, offset: int) -> VoterSet | None:
        """The last set up to this offset: what a snapshot that ends there has to name."""
        offsets = sorted(self._sets)
        index = bisect_right(offsets, offset) - 1
        return self._sets[offsets[index]] if index >= 0 else None


def _timeline(quorum: Quorum) -> list[Known]:
    """All sets in this node's log, and the one before them that a snapshot names."""
    timeline = quorum.core._replica.history._voters
    return list(zip(timeline._offsets, timeline._values, strict=True))


def _differ_by_one(who: str, before: Known, after: Known) -> None:
    one, other = ({voter.key for voter in voters} for _, voters in (before, after))
    if len(one ^ other) > 1:
        raise Violation(f"{who}: more than one voter changed from {before} to {after}")
