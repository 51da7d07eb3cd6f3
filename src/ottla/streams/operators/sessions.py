"""Sessions of each key, as in Kafka Streams: records that follow each other within a gap.

A record between two sessions merges them: the old ones are deleted (a result without a value) and
the new one replaces them. A session ends with its last record, and closes when stream time has
passed that by more than the gap. A closed session can still become part of an open one: it is
forgotten when no open session can reach it any more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.streams.operators.failures import Guard
from ottla.streams.operators.folds import Fold
from ottla.streams.operators.operator import Operator, State, Step
from ottla.streams.operators.packing import NOTHING
from ottla.streams.operators.records import Record, Result

_SLOTS = 4
"""Sessions are forgotten up to a quarter of a gap late, for fewer timers."""


class Session(NamedTuple):
    start: int
    end: int
    time: int
    aggregate: Any


class SessionFold(Operator):
    timed = True

    def __init__(
        self, gap_ms: int, fold: Fold, guard: Guard, *, every: bool = False, final: bool = False
    ) -> None:
        self._gap = gap_ms
        self._fold = fold
        self._guard = guard
        self._every = every
        self._final = final

    def take(self, key: str, state: State | None, records: Sequence[Record], now: int) -> Step:
        due, before = self._loads(state)
        sessions = list(before)
        results: list[Result] = []
        for record in records:
            sessions = self._guard.call(
                record,
                results,
                sessions,
                lambda: self._with(key, sessions, record, now, results),  # noqa: B023
            )
        if not self._every and not self._final:
            results += self._differences(key, before, sessions)
        return self._step(sessions, results, due)

    def look(self, key: str, state: State | None, now: int) -> Step:
        due, sessions = self._loads(state)
        over = [one for one in sessions if now >= self._over_at(one.end)]
        results = [self._result(key, one) for one in over] if self._final else []
        rest = [one for one in sessions if one not in over]
        return self._step(rest, results, None if due is None or due <= now else due)

    def _closed(self, end: int, now: int) -> bool:
        return end + self._gap < now

    def _over_at(self, end: int) -> int:
        """Return when a session that ends at `end` can be forgotten: its result is final, or it is
        out of reach, because a session with a record one gap later has closed too."""
        return end + self._gap * (1 if self._final else 2) + 1

    def _with(
        self, key: str, sessions: list[Session], record: Record, now: int, results: list[Result]
    ) -> list[Session]:
        met = [
            one for one in sessions if one.start - self._gap <= record.time <= one.end + self._gap
        ]
        start = min([record.time, *(one.start for one in met)])
        end = max([record.time, *(one.end for one in met)])
        if self._closed(end, now):
            return sessions
        time = max([record.time, *(one.time for one in met)])
        new = Session(start, end, time, self._aggregate(key, met, record))
        if self._every and not self._final:
            gone = [one for one in met if (one.start, one.end) != (start, end)]
            results += [*(self._deleted(key, one) for one in gone), self._result(key, new, record)]
        return sorted(
            [*(one for one in sessions if one not in met), new], key=lambda one: one.start
        )

    def _aggregate(self, key: str, met: list[Session], record: Record) -> Any:
        """Return the new aggregate, as text, because a function may change its argument."""
        fold = self._fold
        if not met:
            return fold.dumps(fold.start(record))
        merged = fold.loads(met[0].aggregate)
        for one in met[1:]:
            merged = fold.merge(key, merged, fold.loads(one.aggregate))
        return fold.dumps(fold.add(merged, record))

    def _differences(
        self, key: str, before: Sequence[Session], after: Sequence[Session]
    ) -> list[Result]:
        kept = {(one.start, one.end) for one in after}
        known = set(before)
        gone = [one for one in before if (one.start, one.end) not in kept]
        new = [one for one in after if one not in known]
        return [*(self._deleted(key, one) for one in gone), *(self._result(key, o) for o in new)]

    def _deleted(self, key: str, one: Session) -> Result:
        return Result(key, NOTHING, one.time, start=one.start, end=one.end)

    def _result(self, key: str, one: Session, origin: Record | None = None) -> Result:
        return Result(key, one.aggregate, one.time, start=one.start, end=one.end, origin=origin)

    def _step(self, sessions: list[Session], results: list[Result], due: int | None) -> Step:
        if not sessions:
            return Step(None, results)
        first = self._due(min(one.end for one in sessions))
        ask = due is None or first < due
        more = json.dumps([first if ask else due, *sessions])
        newest = max(one.time for one in sessions)
        return Step(State(NOTHING, newest, more), results, first if ask else None)

    def _due(self, end: int) -> int:
        slot = 1 if self._final else max(1, self._gap // _SLOTS)
        return -(-self._over_at(end) // slot) * slot

    def _loads(self, state: State | None) -> tuple[int | None, list[Session]]:
        if state is None:
            return None, []
        due, *sessions = json.loads(state.more)
        return due, [Session(*one) for one in sessions]
