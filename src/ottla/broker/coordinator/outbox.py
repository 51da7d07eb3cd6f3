"""The output of one step of a state machine, and the time at which it runs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ottla.protocol.schema import Message, Struct


class Now(NamedTuple):
    """The time of an event, on both clocks."""

    ms: int
    """Monotonic clock: for timers and time-outs."""
    wall_ms: int
    """Wall clock: for what is stored, such as commit times and expiry."""


class CoordinatorRecord(NamedTuple):
    """A record of `__consumer_offsets` or `__transaction_state`; a None value is a tombstone."""

    key: Message
    value: Message | None


class Outbox:
    """A state machine fills it during one step; the runtime carries it out afterwards.

    The records are appended together. The replies of this step and of all later steps are sent when
    these records are committed, so that no client is told something that a crash could undo.
    """

    __slots__ = ("producer", "records", "replies", "timers")

    def __init__(self) -> None:
        self.producer: tuple[int, int] | None = None
        """Id and epoch of the producer in whose transaction the records are written; None if in
        none."""
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Any, Message | Struct]] = []
        self.timers: dict[Hashable, int | None] = {}

    def append(self, key: Message, value: Message | None) -> None:
        self.records.append(CoordinatorRecord(key, value))

    def reply(self, token: Any, response: Any) -> None:
        """Answer the request of `token`, in its own step or a later one; only once. The response
        is a message, or what the handler combines from several shards to one."""
        self.replies.append((token, response))

    def set_timer(self, key: Hashable, due_ms: int) -> None:
        """Ask for `timer_fired(key)` at `due_ms` (monotonic); replaces a timer of the same key."""
        self.timers[key] = due_ms

    def cancel_timer(self, key: Hashable) -> None:
        self.timers[key] = None
