"""What the operators should do, in plain Python and as simply as possible.

Records come in batches, as Spark takes them. Stream time, the newest timestamp less the grace,
moves between batches; an empty batch at the end lets windows close. Each model gives the results of
each batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Window = tuple[int, int]


class Rec(NamedTuple):
    """A record, at a time in milliseconds; `side` 0 is the left or only input, 1 the right."""

    key: Any
    value: Any
    at: int
    side: int = 0


class Update(NamedTuple):
    """A result: of a window if there is one; a value of None deletes."""

    key: Any
    value: Any
    at: int
    window: Window | None = None


class Pair(NamedTuple):
    """A result of a join; `gone`: a pair of tables that is no more."""

    key: Any
    left: Any
    right: Any
    at: int
    gone: bool = False


Batches = Sequence[Sequence[Rec]]
Fold = Callable[[list[Any]], Any]
"""Of the values of a window, in any order."""


@dataclass
class Clock:
    """Our operators see stream time as of the start of a batch.

    Spark's own aggregates close windows by that, too, but drop records by the time of one batch
    before.
    """

    grace: int
    newest: int = 0
    before: int = 0

    @property
    def now(self) -> int:
        return max(0, self.newest - self.grace)

    def end(self, batch: Iterable[Rec]) -> None:
        self.before = self.now
        self.newest = max([self.newest, *(rec.at for rec in batch)])


def usable(batches: Batches, *, values: bool) -> list[list[Rec]]:
    """Without what has no key; with `values` without what has no value, either."""
    return [
        [rec for rec in batch if rec.key is not None and (rec.value is not None or not values)]
        for batch in batches
    ]


def _update(key: Any, recs: Sequence[Rec], fold: Fold, window: Window | None = None) -> Update:
    return Update(key, fold([rec.value for rec in recs]), max(rec.at for rec in recs), window)


def by_key(batches: Batches, fold: Fold) -> list[list[Update]]:
    seen: dict[Any, list[Rec]] = defaultdict(list)
    outputs = []
    for batch in usable(batches, values=True):
        for rec in batch:
            seen[rec.key].append(rec)
        outputs.append([_update(key, seen[key], fold) for key in {rec.key for rec in batch}])
    return outputs


def time_windows(at: int, size: int, advance: int) -> list[Window]:
    newest = at // advance * advance
    starts = range(newest, max(-1, newest - size), -advance)
    return [(start, start + size) for start in starts if start + size > at]


def by_time(
    batches: Batches,
    fold: Fold,
    window: tuple[int, int, int],
    *,
    final: bool,
    native: bool,
    values: bool = False,
) -> list[list[Update]]:
    """Tumbling and hopping windows; `window` is size, advance and grace."""
    size, advance, grace = window
    clock = Clock(grace)
    seen: dict[tuple[Any, Window], list[Rec]] = defaultdict(list)
    outputs = []
    for batch in usable(batches, values=values):
        late = clock.before if native else clock.now
        places = [
            ((rec.key, span), rec)
            for rec in batch
            for span in time_windows(rec.at, size, advance)
            if span[1] > late
        ]
        for place, rec in places:
            seen[place].append(rec)
        closed = [place for place in seen if place[1][1] <= clock.now]
        told = closed if final else list(dict.fromkeys(place for place, _ in places))
        outputs.append([_update(key, seen[key, span], fold, span) for key, span in told])
        for place in closed:
            del seen[place]
        clock.end(batch)
    return outputs


def _span(session: Sequence[Rec]) -> Window:
    return min(rec.at for rec in session), max(rec.at for rec in session)


class Sessions:
    """The open sessions of each key: lists of records."""

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self.open: dict[Any, list[list[Rec]]] = defaultdict(list)

    def add(self, rec: Rec, now: int) -> None:
        met = [one for one in self.open[rec.key] if self._meets(one, rec)]
        merged = [*(other for one in met for other in one), rec]
        if not self.is_closed(merged, now):
            rest = [one for one in self.open[rec.key] if one not in met]
            self.open[rec.key] = [*rest, merged]

    def _meets(self, session: Sequence[Rec], rec: Rec) -> bool:
        start, end = _span(session)
        return start - self._gap <= rec.at <= end + self._gap

    def is_closed(self, session: Sequence[Rec], now: int) -> bool:
        return _span(session)[1] + self._gap < now

    def contents(self) -> dict[tuple[Any, Window], list[Rec]]:
        return {(key, _span(one)): one for key, found in self.open.items() for one in found}

    def close(self, now: int) -> dict[tuple[Any, Window], list[Rec]]:
        closed = {}
        for key, found in self.open.items():
            gone = [one for one in found if self.is_closed(one, now)]
            closed.update({(key, _span(one)): one for one in gone})
            self.open[key] = [one for one in found if one not in gone]
        return closed


def by_session(
    batches: Batches, fold: Fold, gap: int, grace: int, *, final: bool, native: bool = False
) -> list[list[Update]]:
    """Spark's own sessions drop a record by its own time, not by that of the session it meets.
    Only sessions that are told once are over when they have closed."""
    clock, sessions = Clock(grace), Sessions(gap)
    outputs = []
    for batch in usable(batches, values=False):
        before = sessions.contents()
        for rec in batch:
            if not native:
                sessions.add(rec, clock.now)
            elif rec.at + gap >= clock.before:
                sessions.add(rec, 0)
        after = sessions.contents()
        if final:
            closed = sessions.close(clock.now)
            results = [_update(key, recs, fold, span) for (key, span), recs in closed.items()]
        else:
            results = _changes(before, after, fold)
        outputs.append(results)
        clock.end(batch)
    return outputs


_Contents = dict[tuple[Any, Window], list[Rec]]


def _changes(before: _Contents, after: _Contents, fold: Fold) -> list[Update]:
    gone = [(place, recs) for place, recs in before.items() if place not in after]
    new = [(place, recs) for place, recs in after.items() if before.get(place) != recs]
    deleted = [Update(key, None, max(rec.at for rec in recs), span) for (key, span), recs in gone]
    return [*deleted, *(_update(key, recs, fold, span) for (key, span), recs in new)]


def sliding_windows(recs: Sequence[Rec], difference: int) -> dict[Window, list[Rec]]:
    """One that ends with each record, one that begins just after each, unless it is empty."""
    starts = {max(0, rec.at - difference) for rec in recs} | {rec.at + 1 for rec in recs}
    spans = [(start, start + difference) for start in starts]
    contents = {span: [rec for rec in recs if span[0] <= rec.at <= span[1]] for span in spans}
    return {span: inside for span, inside in contents.items() if inside}


def by_sliding(
    batches: Batches, fold: Fold, difference: int, grace: int, *, final: bool
) -> list[list[Update]]:
    clock = Clock(grace)
    seen: dict[Any, list[Rec]] = defaultdict(list)
    told = 0
    outputs = []
    for batch in usable(batches, values=True):
        now = clock.now
        before = {key: sliding_windows(recs, difference) for key, recs in seen.items()}
        for rec in batch:
            if rec.at + difference >= now:
                seen[rec.key].append(rec)
        after = {key: sliding_windows(recs, difference) for key, recs in seen.items()}
        results = [
            _update(key, inside, fold, span)
            for key, spans in (before if final else after).items()
            for span, inside in spans.items()
            if ((told <= span[1] < now) if final else _changed(before, key, span, inside, now))
        ]
        told = max(told, now)
        outputs.append(results)
        clock.end(batch)
    return outputs


def _changed(
    before: dict[Any, dict[Window, list[Rec]]], key: Any, span: Window, inside: list[Rec], now: int
) -> bool:
    return before.get(key, {}).get(span) != inside and span[1] >= now


# Tables and joins.


def in_order(batch: Iterable[Rec], first: int = 0) -> list[Rec]:
    """From the side whose next record is older; on ties from `first`. In a side as they came."""
    queues = [[rec for rec in batch if rec.side == side] for side in (first, 1 - first)]
    taken = []
    while any(queues):
        nonempty = [queue for queue in queues if queue]
        taken.append(min(nonempty, key=lambda queue: queue[0].at).pop(0))
    return taken


def _of_key(batch: Iterable[Rec]) -> dict[Any, list[Rec]]:
    found = defaultdict(list)
    for rec in batch:
        found[rec.key].append(rec)
    return found


def stream_table(batches: Batches, how: str) -> list[list[Pair]]:
    table: dict[Any, Any] = {}
    outputs = []
    for batch in batches:
        results = []
        for key, recs in _of_key(batch).items():
            for rec in in_order(recs, first=1):
                if rec.side == 1 and key is not None:
                    table[key] = rec.value
                elif rec.side == 0 and rec.value is not None:
                    found = table.get(key)
                    if found is not None or how == "left":
                        results.append(Pair(key, rec.value, found, rec.at))
        outputs.append([pair for pair in results if how == "left" or pair.key is not None])
    return outputs


def table_table(batches: Batches, how: str, *, every: bool) -> list[list[Pair]]:
    rows: dict[Any, list[tuple[Any, int]]] = {}
    outputs = []
    for batch in usable(batches, values=False):
        results = []
        for key, recs in _of_key(batch).items():
            sides = rows.setdefault(key, [(None, 0), (None, 0)])
            there = _joins(sides, how)
            for number, rec in enumerate(in_order(recs), start=1):
                sides[rec.side] = (rec.value, rec.at if rec.value is not None else 0)
                if every or number == len(recs):
                    if there or _joins(sides, how):
                        at = max(rec.at, *(time for _, time in sides))
                        gone = not _joins(sides, how)
                        results.append(Pair(key, sides[0][0], sides[1][0], at, gone))
                    there = _joins(sides, how)
        outputs.append(results)
    return outputs


def _joins(sides: Sequence[tuple[Any, int]], how: str) -> bool:
    left, right = (value is not None for value, _ in sides)
    return {"inner": left and right, "left": left, "outer": left or right}[how]


def stream_stream(batches: Batches, how: str, before: int, after: int) -> set[Pair]:
    """All in all, and if nothing came too late."""
    recs = [rec for batch in batches for rec in batch if rec.value is not None]
    lefts, rights = ([rec for rec in recs if rec.side == side] for side in (0, 1))
    met = [(one, other) for one in lefts for other in rights if _meet(one, other, before, after)]
    pairs = {Pair(one.key, one.value, other.value, max(one.at, other.at)) for one, other in met}
    if how != "inner":
        alone = [one for one in lefts if all(one is not left for left, _ in met)]
        pairs |= {Pair(one.key, one.value, None, one.at) for one in alone}
    if how == "outer":
        alone = [one for one in rights if all(one is not right for _, right in met)]
        pairs |= {Pair(one.key, None, one.value, one.at) for one in alone}
    return pairs


def _meet(one: Rec, other: Rec, before: int, after: int) -> bool:
    same = one.key is not None and one.key == other.key
    return same and one.at - before <= other.at <= one.at + after


def regrouped_sums(batches: Batches, group: Callable[[Any], Any]) -> dict[Any, int]:
    """The sum of each group of a table's rows, after the last batch; 0 for groups that emptied."""
    rows: dict[Any, Any] = {}
    groups: set[Any] = set()
    for batch in usable(batches, values=False):
        for rec in batch:
            rows[rec.key] = rec.value
            groups |= {group(rec.value)} if rec.value is not None else set()
    values = [value for value in rows.values() if value is not None]
    return {one: sum(value for value in values if group(value) == one) for one in groups}


def held_back(batches: Batches, limit: int, grace: int = 0) -> list[list[Update]]:
    """The newest of each key when the limit since the first has passed."""
    clock = Clock(grace)
    held: dict[Any, tuple[int, Rec]] = {}
    outputs = []
    for batch in usable(batches, values=False):
        for rec in batch:
            due = held[rec.key][0] if rec.key in held else rec.at + limit
            held[rec.key] = (due, rec)
        ready = {key: rec for key, (due, rec) in held.items() if due <= clock.now}
        outputs.append([Update(key, rec.value, rec.at) for key, rec in ready.items()])
        for key in ready:
            del held[key]
        clock.end(batch)
    return outputs
