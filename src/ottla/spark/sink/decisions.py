"""The rules of a decision: who may make one, what one already made means, and what is left over.

Pure: nothing here asks a broker. A decision says, for one version of an application (a micro-batch,
or a `txnVersion`), which transactions of tasks are its rows. Versions only grow, and whoever
decides has fenced all others before looking: so what is read then cannot be overtaken.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from typing import Any, Literal, NamedTuple

from ottla.client.producer.prepared import PreparedTransaction
from ottla.spark.sink.errors import LostTransactions, RowsMissing
from ottla.spark.sink.names import TaskId, slot_of

LostPolicy = Literal["fail", "rewrite", "skip"]
FORMAT = 1


class Part(NamedTuple):
    """The rows of one task: its prepared transaction."""

    task: int
    prepared: PreparedTransaction


class Open(NamedTuple):
    """An open transaction that a list of all shows."""

    name: TaskId
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of the newest decision without its parts."""

    version: int
    turn: int
    """One more from version to version, also where these leave numbers out."""
    serial: int
    """One more from decision to decision, also where a version is decided anew."""
    run: str
    finished: bool = False
    """All its transactions are committed."""
    given_up: int = -1
    """The version whose open transactions a driver aborted last, ..."""
    given_up_count: int = 0
    """... and how often that has happened with any version."""

    def text(self) -> str:
        return json.dumps({"v": FORMAT, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Head:
        return cls(**_fields(text))


@dataclass(frozen=True, slots=True)
class Decision:
    head: Head
    parts: tuple[Part, ...]

    def text(self) -> str:
        parts = [[part.task, str(part.prepared)] for part in self.parts]
        fields = {"v": FORMAT, **asdict(self.head), "parts": parts}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Decision:
        fields = _fields(text)
        parts = (Part(task, PreparedTransaction.parse(one)) for task, one in fields.pop("parts"))
        return cls(Head(**fields), tuple(parts))


def _fields(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    version = found.pop("v")
    if version != FORMAT:
        raise ValueError(
            f"the newest decision is in format {version}: a newer version of the sink has made it"
        )
    return found


@dataclass(frozen=True, slots=True)
class Write:
    """What a driver has to commit."""

    app: str
    version: int
    turn: int
    run: str
    parts: tuple[Part, ...]
    given_up_count: int = 0
    """As the tasks knew it before they began."""
    complete: bool = True
    """No task has left out its rows because it found the version decided."""
    planned: bool = False
    """The turn was the next one when the write was planned, and must still be: versions alone do
    not tell, as they may leave out numbers."""


class Verdict(Enum):
    DECIDE = auto()
    """Nothing is decided about this version."""
    FINISH = auto()
    """It is decided, and perhaps not all of it committed."""
    PASSED = auto()
    """It is done, or so is a later one."""
    OVERTAKEN = auto()
    """Another write of the application was decided since this one was planned."""


NOTHING = Head(version=-1, turn=-1, serial=-1, run="")
"""What is decided before anything is."""


def judge(head: Head, write: Write) -> Verdict:
    if head.version < write.version:
        if write.planned and write.turn != head.turn + 1:
            return Verdict.OVERTAKEN
        return Verdict.DECIDE
    return Verdict.PASSED if is_done(head, write.version) else Verdict.FINISH


def is_done(head: Head, version: int) -> bool:
    """Versions follow each other: with a later one decided, all before it are committed."""
    return head.version > version or (head.version == version and head.finished)


def decided(head: Head, write: Write, parts: tuple[Part, ...]) -> Decision:
    """The decision that follows `head`."""
    if not write.complete:
        raise RowsMissing(write.app, write.version)
    own = (write.version, write.turn, head.serial + 1, write.run)
    return Decision(Head(*own, False, head.given_up, head.given_up_count), parts)


def was_given_up(head: Head, write: Write) -> bool:
    """Whether another driver has aborted what was open of this version, or is about to, since the
    tasks began: their transactions may be among it."""
    return head.given_up == write.version and head.given_up_count > write.given_up_count


def gave_up(head: Head, version: int) -> Head:
    """The same decision, and that nothing that is open now will be decided for `version`."""
    return replace(head, given_up=version, given_up_count=head.given_up_count + 1)


# What has become of a decision's transactions


class Outcome(Enum):
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """It is over, and nobody knows how."""


def replacement(
    write: Write, outcomes: Mapping[Part, Outcome], policy: LostPolicy
) -> tuple[Part, ...] | None:
    """The parts to decide on instead, now that some of the decided ones cannot be committed any
    more; None if there is nothing to replace."""
    lost = [part for part, outcome in outcomes.items() if outcome is not Outcome.COMMITTED]
    if not lost or policy == "skip":
        return None
    if all(outcome is Outcome.ABORTED for outcome in outcomes.values()):
        return write.parts
    if policy == "fail":
        raise LostTransactions(write.app, write.version, outcomes)
    tasks = {part.task for part in lost}
    kept = [part for part in outcomes if part not in lost]
    return (*kept, *(part for part in write.parts if part.task in tasks))


def leftovers(listed: Iterable[Open], turn: int, named: Collection[Part] = ()) -> list[Open]:
    """Open transactions that no decision will ever name: those of this turn which its decision does
    not, and what is left of two turns before. None of them is of two turns later if, when they were
    listed, the next turn was not decided."""
    kept = {part.prepared for part in named}
    slot = slot_of(turn)
    return [one for one in listed if one.name.slot == slot and one.prepared not in kept]


# What a task makes of it


def may_leave_out(head: Head, version: int, run: str) -> bool:
    """Whether nobody will want the rows of a task that begins now: its version is done, or its own
    driver has decided without this attempt."""
    return head.version >= version and (is_done(head, version) or head.run == run)


def was_overtaken(before: Head, after: Head, version: int) -> bool:
    """Whether its version was decided, done or given up while a task wrote: so without it."""
    if after.given_up_count > before.given_up_count and after.given_up == version:
        return True
    return after != before and after.version >= version
