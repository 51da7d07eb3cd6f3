"""Kafka Streams' sliding windows: one for each set of records within a difference of each other.

Both ends of a window are included. Each record has a window that ends with it, and one that begins
just after it, if that contains records. So the windows follow from the records, and the state is
the records, kept as long as an open window may need them.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ottla.streams.operators.failures import Guard
from ottla.streams.operators.folds import Fold
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import NOTHING
from ottla.streams.operators.records import NOWHERE, Record, Result

_SLOTS = 4


class Kept:
    """The records of a key, sorted by time."""

    def __init__(self, key: str, times: list[int], values: list[str]) -> None:
        self._key = key
        self.times = times
        self.values = values

    def add(self, record: Record) -> int:
        place = bisect_right(self.times, record.time)
        self.times.insert(place, record.time)
        self.values.insert(place, record.value)
        return place

    def remove(self, place: int) -> None:
        del self.times[place], self.values[place]

    def within(self, start: int, end: int) -> list[Record]:
        span = range(bisect_left(self.times, start), bisect_right(self.times, end))
        return [
            Record(0, self.times[at], NOWHERE, NOWHERE, NOWHERE, "", "", self._key, self.values[at])
            for at in span
        ]

    def any_within(self, start: int, end: int) -> bool:
        return bisect_left(self.times, start) < bisect_right(self.times, end)

    def near(self, time: int, reach: int) -> list[int]:
        first, last = bisect_left(self.times, time - reach), bisect_right(self.times, time + reach)
        return self.times[first:last]

    def count(self, time: int) -> int:
        return bisect_right(self.times, time) - bisect_left(self.times, time)

    def since(self, time: int) -> Kept:
        place = bisect_left(self.times, time)
        return Kept(self._key, self.times[place:], self.values[place:])


class SlidingFold(Operator):
    timed = True

    def __init__(
        self,
        difference_ms: int,
        fold: Fold,
        guard: Guard,
        *,
        every: bool = False,
        final: bool = False,
    ) -> None:
        self._difference = difference_ms
        self._fold = fold
        self._guard = guard
        self._every = every
        self._final = final

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        try:
            return self._taken(key, state, records, now, checked=self._every or self._final)
        except Exception:
            # Go through the records again with a check on each, to find the one that failed.
            return self._taken(key, state, records, now, checked=True)

    def _taken(
        self, key: str, state: State | None, records: Sequence[Record], now: int, *, checked: bool
    ) -> Step:
        due, told, kept = self._loads(key, state)
        results = self._closed(key, kept, told, now)
        changed: dict[int, None] = {}
        for record in records:
            if record.time + self._difference < now:
                continue
            place = kept.add(record)
            starts = [start for start in self._changed(kept, record.time) if self._open(start, now)]
            if checked:
                made = self._checked(key, kept, starts, record, results)
                if made is None:
                    kept.remove(place)
                    continue
                results += made if self._every and not self._final else []
            changed.update(dict.fromkeys(starts))
        if not self._every and not self._final:
            results += self._windows(key, kept, sorted(changed))
        return self._step(kept, results, due, max(told, now))

    def _checked(
        self, key: str, kept: Kept, starts: Sequence[int], record: Record, results: list[Result]
    ) -> list[Result] | None:
        """Return the windows with the record in them; None if it was set aside."""
        nothing: list[Result] | None = None
        return self._guard.call(record, results, nothing, lambda: self._windows(key, kept, starts))

    def look(self, key: str, state: State | None, now: int) -> Step:
        due, told, kept = self._loads(key, state)
        results = self._closed(key, kept, told, now)
        rest = kept.since(now - self._difference - 1)
        return self._step(rest, results, None if due is None or due <= now else due, max(told, now))

    def _closed(self, key: str, kept: Kept, told: int, now: int) -> list[Result]:
        """Return the final results of windows that closed since `told`."""
        if not self._final:
            return []
        ends = ((start, start + self._difference) for start in self._all_starts(kept))
        return self._windows(key, kept, [start for start, end in ends if told <= end < now])

    def _open(self, start: int, now: int) -> bool:
        return start + self._difference >= now

    def _changed(self, kept: Kept, time: int) -> list[int]:
        """Return the starts of windows that contain a record at `time` or begin after it."""
        reach = self._difference
        near = kept.near(time, reach + 1)
        starts = {max(0, one - reach) for one in near} | {one + 1 for one in near}
        starts = {start for start in starts if start <= time <= start + reach}
        after = time + 1
        known = kept.count(time) > 1 or kept.count(after + reach) > 0
        if not known and kept.any_within(after, after + reach):
            starts.add(after)
        return sorted(starts)

    def _all_starts(self, kept: Kept) -> list[int]:
        reach = self._difference
        starts = {max(0, time - reach) for time in kept.times}
        after = {time + 1 for time in kept.times}
        return sorted(starts | {one for one in after if kept.any_within(one, one + reach)})

    def _windows(self, key: str, kept: Kept, starts: Sequence[int]) -> list[Result]:
        return [self._window(key, kept, start) for start in starts]

    def _window(self, key: str, kept: Kept, start: int) -> Result:
        end = start + self._difference
        first, *others = kept.within(start, end)
        aggregate = self._fold.start(first)
        for record in others:
            aggregate = self._fold.add(aggregate, record)
        newest = max([first.time, *(record.time for record in others)])
        return Result(key, self._fold.dumps(aggregate), newest, start=start, end=end)

    def _step(self, kept: Kept, results: list[Result], due: int | None, told: int) -> Step:
        if not kept.times:
            return Step(None, results)
        first = self._due(kept, told)
        ask = due is None or first < due
        more = json.dumps([first if ask else due, told, kept.times, kept.values])
        return Step(State(NOTHING, kept.times[-1], more), results, first if ask else None)

    def _due(self, kept: Kept, told: int) -> int:
        if not self._final:
            slot = max(1, self._difference // _SLOTS)
            return -(-(kept.times[0] + self._difference + 2) // slot) * slot
        ends = [start + self._difference for start in self._all_starts(kept)]
        forget = kept.times[0] + self._difference + 2
        return min([forget, *(end + 1 for end in ends if end >= told)])

    def _loads(self, key: str, state: State | None) -> tuple[int | None, int, Kept]:
        if state is None:
            return None, 0, Kept(key, [], [])
        due, told, times, values = json.loads(state.more)
        return due, told, Kept(key, times, values)
