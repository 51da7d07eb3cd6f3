"""Declarations of processors' stores, and the clocks of their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Serde

STREAM_TIME = "stream time"
"""Advances with the timestamps of records."""
WALL_CLOCK = "wall clock"
"""Advances by itself. An application that uses it never finishes `run_available`."""


@dataclass(frozen=True)
class KeyValues:
    """A store with any keys. Entries not written for `ttl` expire (wall-clock time)."""

    name: str
    key: Serde
    value: Serde
    ttl: Duration | None = None


@dataclass(frozen=True)
class Value:
    """A store with one value for each key of the records."""

    name: str
    value: Serde
    ttl: Duration | None = None


@dataclass(frozen=True)
class Values:
    """A store with a list of values for each key of the records."""

    name: str
    value: Serde
    ttl: Duration | None = None


StoreDeclaration: TypeAlias = KeyValues | Value | Values


def ttl_ms(store: StoreDeclaration) -> int | None:
    return None if store.ttl is None else milliseconds(store.ttl, f"ttl of the store {store.name}")


def check_clock(time: str | None) -> None:
    if time not in (None, STREAM_TIME, WALL_CLOCK):
        raise BadTopology(f"time is {time!r}: it must be {STREAM_TIME!r} or {WALL_CLOCK!r}")
