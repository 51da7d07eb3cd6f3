"""An automaton that reads a topic name once, whatever the expression."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinator.consumer.regex.classes import WORD
from ottla.broker.coordinator.consumer.regex.nodes import (
    ALPHABET,
    Chars,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
    literal_prefix,
)
from ottla.broker.coordinator.consumer.regex.syntax import InvalidRegex, parse

_END: Final = ""
"""The symbol after the last character."""
WORK_MAX: Final = 300_000
"""The most states visited for one answer, which takes a fraction of a second. No reasonable
expression needs so many."""
_STATES_KEPT_MAX: Final = 500_000

Situation = tuple[frozenset[int], str]
"""The possible states of the automaton, and the kind of the previous character: none, word or
other."""


class TopicRegex:
    """A compiled expression. Raises `InvalidRegex` if RE2 would refuse it, or it is too costly
    here."""

    def __init__(self, text: str) -> None:
        self.text = text
        tree = parse(text)
        self._prefix = literal_prefix(tree)
        self._chars: dict[int, frozenset[str]] = {}
        self._places: dict[int, str] = {}
        self._next: list[tuple[int, ...]] = []
        self._accepting = self._state()
        self._start: Situation = (frozenset({self._build(tree, self._accepting)}), "none")
        self._kinds = _kinds(set(self._chars.values()) | {WORD})
        self._steps: dict[Situation, dict[int, Situation]] = {}
        self._accepts: dict[Situation, bool] = {}
        self._kept = 0
        self._work = 0

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that match."""
        self._work = 0
        return frozenset(
            name for name in names if name.startswith(self._prefix) and self._matches(name)
        )

    def matches(self, name: str) -> bool:
        return bool(self.among((name,)))

    # --- matching -------------------------------------------------------------------------------

    def _matches(self, name: str) -> bool:
        situation = self._start
        for char in name:
            steps = self._steps.get(situation)
            after = steps.get(self._kinds[char]) if steps is not None else None
            situation = self._step(situation, char) if after is None else after
            if not situation[0]:
                return False
        accepts = self._accepts.get(situation)
        if accepts is None:
            accepts = self._accepting in self._closure(situation, _END)
            self._accepts[situation] = accepts
        return accepts

    def _step(self, situation: Situation, char: str) -> Situation:
        states = frozenset(
            self._next[state][0]
            for state in self._closure(situation, char)
            if state in self._chars and char in self._chars[state]
        )
        after = (states, "word" if char in WORD else "other")
        if self._kept > _STATES_KEPT_MAX:
            self._steps.clear()
            self._accepts.clear()
            self._kept = 0
        self._steps.setdefault(situation, {})[self._kinds[char]] = after
        self._kept += len(states) + 1
        return after

    def _closure(self, situation: Situation, following: str) -> set[int]:
        """Return all states that can be reached without reading a character."""
        states, before = situation
        reached = set(states)
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in self._chars:
                continue
            place = self._places.get(state)
            if place is not None and not _is_at(place, before, following):
                continue
            for onward in self._next[state]:
                if onward not in reached:
                    reached.add(onward)
                    waiting.append(onward)
        self._work += len(reached)
        if self._work > WORK_MAX:
            raise InvalidRegex("it takes too much time to match the topics there are")
        return reached

    # --- building -------------------------------------------------------------------------------

    def _state(self, *onward: int) -> int:
        self._next.append(onward)
        return len(self._next) - 1

    def _build(self, node: Node, after: int) -> int:
        """Return the first state of an automaton that matches `node` and goes on with `after`."""
        match node:
            case Chars(allowed):
                state = self._state(after)
                self._chars[state] = allowed
                return state
            case Place(kind):
                state = self._state(after)
                self._places[state] = kind
                return state
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(options):
                return self._state(*(self._build(option, after) for option in options))
            case Repeat(part, least, most):
                return self._build_repeat(part, least, most, after)

    def _build_repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._state()
            self._next[loop] = (self._build(part, loop), after)
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._state(self._build(part, after), end)
        for _ in range(least):
            after = self._build(part, after)
        return after


def _is_at(place: str, before: str, following: str) -> bool:
    if place == "start":
        return before == "none"
    if place == "end":
        return following == _END
    at_edge = (before == "word") != (following in WORD)
    return at_edge == (place == "word")


def _kinds(sets: Iterable[frozenset[str]]) -> dict[str, int]:
    """Number the characters; those that no set of the expression distinguishes get the same
    number."""
    ordered = list(sets)
    numbers: dict[tuple[bool, ...], int] = {}
    return {
        char: numbers.setdefault(tuple(char in chars for chars in ordered), len(numbers))
        for char in ALPHABET
    }
