"""Time windows, as a program declares them.

`grace` is how long after its end a window still accepts late records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.durations import in_words
from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology


@dataclass(frozen=True)
class Tumbling:
    """Windows of fixed size that do not overlap: each record is in exactly one."""

    size: Duration
    grace: Duration = field(default="0 ms", kw_only=True)
    size_ms: int = field(init=False)
    grace_ms: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, "size", "grace")
        _positive(self, "size")

    def __str__(self) -> str:
        return f"tumbling {in_words(self.size_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True)
class Hopping:
    """A new window begins every `advance`, so they overlap."""

    size: Duration
    advance: Duration = field(kw_only=True)
    grace: Duration = field(default="0 ms", kw_only=True)
    size_ms: int = field(init=False)
    advance_ms: int = field(init=False)
    grace_ms: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, "size", "advance", "grace")
        _positive(self, "size", "advance")
        if self.advance_ms > self.size_ms:
            raise BadTopology(
                f"Hopping windows advance by {self.advance}, past their size of {self.size}"
            )

    def __str__(self) -> str:
        every = in_words(self.advance_ms)
        return f"hopping {in_words(self.size_ms)} every {every}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True)
class Sliding:
    """Windows of all records within `difference` of each other (both ends included)."""

    difference: Duration
    grace: Duration = field(default="0 ms", kw_only=True)
    difference_ms: int = field(init=False)
    grace_ms: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, "difference", "grace")

    @property
    def size_ms(self) -> int:
        return self.difference_ms

    def __str__(self) -> str:
        return f"sliding {in_words(self.difference_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True)
class Session:
    """A window that grows as long as records follow each other within `gap`."""

    gap: Duration
    grace: Duration = field(default="0 ms", kw_only=True)
    gap_ms: int = field(init=False)
    grace_ms: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, "gap", "grace")
        _positive(self, "gap")

    def __str__(self) -> str:
        return f"session gap {in_words(self.gap_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True)
class JoinWindow:
    """Records join if the right's time is from `before` earlier to `after` later than the left's.

    `JoinWindow("5 minutes")` applies in both directions.
    """

    within: Duration = "0 ms"
    before: Duration | None = field(default=None, kw_only=True)
    after: Duration | None = field(default=None, kw_only=True)
    grace: Duration = field(default="0 ms", kw_only=True)
    before_ms: int = field(init=False)
    after_ms: int = field(init=False)
    grace_ms: int = field(init=False)

    def __post_init__(self) -> None:
        for side in ("before", "after"):
            if getattr(self, side) is None:
                object.__setattr__(self, side, self.within)
        _measure(self, "before", "after", "grace")

    def __str__(self) -> str:
        before, after = in_words(self.before_ms), in_words(self.after_ms)
        return f"join from {before} before to {after} after, grace {in_words(self.grace_ms)}"


Window: TypeAlias = Tumbling | Hopping | Sliding | Session


def _measure(window: Window | JoinWindow, *names: str) -> None:
    for name in names:
        what = f"{name} of {type(window).__name__}"
        object.__setattr__(window, f"{name}_ms", milliseconds(getattr(window, name), what))


def _positive(window: Window, *names: str) -> None:
    for name in names:
        if getattr(window, f"{name}_ms") == 0:
            raise BadTopology(f"{name} of {type(window).__name__} must be longer than nothing")
