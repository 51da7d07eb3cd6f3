"""What one step of a machine wants done, and the moment at which it happens."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ottla.protocol.schema import Message, Struct


class Now(NamedTuple):
    """The time of an event, on both clocks."""

    ms: int
    """Monotonic: for timers and time-outs."""
    wall_ms: int
    """Since the epoch: for what is stored, such as commit times and expiry."""


class CoordinatorRecord(NamedTuple):
    """A record of `__consumer_offsets` or `__transaction_state`; no value is a tombstone."""

    key: Message
    value: Message | None


class Outbox:
    """Filled by a machine during one step, carried out by the runtime after it.

    The records are appended together. The replies of the step, and of all steps after it, are sent
    when they are committed: nobody is told what a crash could take back.
    """

    __slots__ = ("producer", "records", "replies", "timers")

    def __init__(self) -> None:
        self.producer: tuple[int, int] | None = None
        """Id and epoch of the producer in whose transaction the records are written, if in one."""
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Any, Message | Struct]] = []
        self.timers: dict[Hashable, int | None] = {}

    def append(self, key: Message, value: Message | None) -> None:
        self.records.append(CoordinatorRecord(key, value))

    def reply(self, token: Any, response: Message | Struct) -> None:
        """Answer the request that came with `token`, now or in any later step; once. A part of a
        message is the answer where a handler puts together those of several shards."""
        self.replies.append((token, response))

    def set_timer(self, key: Hashable, due_ms: int) -> None:
        """Ask for `timer_fired(key)` at `due_ms` (monotonic); replaces one of the same key."""
        self.timers[key] = due_ms

    def cancel_timer(self, key: Hashable) -> None:
        self.timers[key] = None
