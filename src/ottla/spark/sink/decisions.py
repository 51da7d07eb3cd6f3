"""The rules of decisions: who may make one, what an existing one means, and what is left over.

Pure: nothing here asks a broker. A decision says, for one version of an application (a micro-batch,
or a `txnVersion`), which transactions of tasks are its rows. Versions only grow, and a driver
fences all others before it reads: so what it reads cannot become outdated.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from typing import Any, Literal, NamedTuple

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.spark.sink.errors import LostTransactions, RowsMissing
from ottla.spark.sink.names import TaskId, slot_of

LostPolicy = Literal["fail", "rewrite", "skip"]
FORMAT = 1


class Part(NamedTuple):
    """The rows of one task: its prepared transaction."""

    task: int
    prepared: PreparedTransaction


class Open(NamedTuple):
    """An open transaction from a list of all."""

    name: TaskId
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class Head:
    """The newest decision without its parts."""

    version: int
    turn: int
    """Counts versions: it grows by one with each, even if version numbers are skipped."""
    serial: int
    """Counts decisions: it grows by one with each, even if a version is decided again."""
    run: str
    finished: bool = False
    """True if all its transactions are committed."""
    given_up: int = -1
    """The version whose open transactions a driver aborted last, ..."""
    given_up_count: int = 0
    """... and how often that has happened, with any version."""

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
    """A write that a driver has to commit."""

    app: str
    version: int
    turn: int
    run: str
    parts: tuple[Part, ...]
    given_up_count: int = 0
    """The count that the tasks knew before they began."""
    complete: bool = True
    """True unless a task left out its rows because it found the version decided."""
    planned: bool = False
    """True if the turn was the next one when the write was planned; it must still be. The version
    does not show it, because versions may skip numbers."""


class Verdict(Enum):
    DECIDE = auto()
    """Nothing is decided about this version."""
    FINISH = auto()
    """It is decided, and perhaps not yet committed completely."""
    PASSED = auto()
    """It is done, or a later version is."""
    OVERTAKEN = auto()
    """Another write of the application was decided since this one was planned."""


NOTHING = Head(version=-1, turn=-1, serial=-1, run="")
"""The state before the first decision."""


def judge(head: Head, write: Write) -> Verdict:
    if head.version < write.version:
        if write.planned and write.turn != head.turn + 1:
            return Verdict.OVERTAKEN
        return Verdict.DECIDE
    return Verdict.PASSED if is_done(head, write.version) else Verdict.FINISH


def is_done(head: Head, version: int) -> bool:
    """True if the version is committed: once a later one is decided, all before it are."""
    return head.version > version or (head.version == version and head.finished)


def decided(head: Head, write: Write, parts: tuple[Part, ...]) -> Decision:
    """Return the decision that follows `head`."""
    if not write.complete:
        raise RowsMissing(write.app, write.version)
    own = (write.version, write.turn, head.serial + 1, write.run)
    return Decision(Head(*own, False, head.given_up, head.given_up_count), parts)


def was_given_up(head: Head, write: Write) -> bool:
    """True if another driver has aborted the open transactions of this version since the tasks
    began, or is about to: this write's may be among them."""
    return head.given_up == write.version and head.given_up_count > write.given_up_count


def gave_up(head: Head, version: int) -> Head:
    """Return the same decision, noting that nothing open now will be decided for `version`."""
    return replace(head, given_up=version, given_up_count=head.given_up_count + 1)


# The outcomes of a decision's transactions.


class Outcome(Enum):
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """It has ended, and nobody knows how."""


def replacement(
    write: Write, outcomes: Mapping[Part, Outcome], policy: LostPolicy
) -> tuple[Part, ...] | None:
    """Return the parts to decide on instead, because some of the decided ones can no longer be
    committed; None if there is nothing to replace."""
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
    """Return open transactions that no decision will ever name: those of this turn that its
    decision does not name, and leftovers of two turns before. None can be of two turns later, if
    the next turn was not decided when they were listed."""
    kept = {part.prepared for part in named}
    slot = slot_of(turn)
    return [one for one in listed if one.name.slot == slot and one.prepared not in kept]


# What a task concludes.


def may_leave_out(head: Head, version: int, run: str) -> bool:
    """True if nobody will want the rows of a task that begins now: its version is done, or its own
    driver has decided without this attempt."""
    return head.version >= version and (is_done(head, version) or head.run == run)


def was_overtaken(before: Head, after: Head, version: int) -> bool:
    """True if the version was decided, done or given up while the task wrote: the decision then
    does not name the task's rows."""
    if after.given_up_count > before.given_up_count and after.given_up == version:
        return True
    return after != before and after.version >= version
