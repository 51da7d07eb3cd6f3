"""How a driver ends a write, in steps. The driver may die after any of them.

    fence   become the only driver of the application
    newest  read the newest decision: it stays the newest until somebody else fences
    check   all own transactions are still open
    record  write the decision, in a transaction that a fenced driver cannot commit
    commit  commit the transactions that the decision names
    mark    note that this is done, for readers after brokers have forgotten the transactions
    sweep   abort transactions that no decision will ever name

A driver that runs the version again after a crash gets the same result. The steps are those of a
`Ledger`: that of brokers is in `ledger.py`, a model of it in the tests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError
from ottla.spark.sink.decisions import (
    NOTHING,
    Decision,
    Head,
    LostPolicy,
    Open,
    Outcome,
    Part,
    Verdict,
    Write,
    decided,
    gave_up,
    judge,
    leftovers,
    replacement,
    was_given_up,
)
from ottla.spark.sink.errors import (
    DecisionUnreadable,
    LostTransactions,
    Overtaken,
    TransactionsGone,
    WrittenInPart,
)

log = logging.getLogger("ottla.spark")


class Ledger(Protocol):
    """The steps' requests to brokers, for one application."""

    async def fence(self) -> None: ...

    async def newest(self) -> Head:
        """Return the newest decision; `NOTHING` if nothing is decided."""
        ...

    async def parts_of(self, head: Head) -> tuple[Part, ...] | None:
        """Return the parts; None if the record of the decision no longer exists."""
        ...

    async def ended_of(self, parts: Sequence[Part]) -> list[Part]:
        """Return those that are no longer open."""
        ...

    async def record(self, decision: Decision) -> None:
        """Record a decision. If another driver has fenced this one, raise without any effect."""
        ...

    async def commit(self, parts: Sequence[Part]) -> dict[Part, Outcome]: ...

    async def abort(self, prepared: Iterable[Part | Open]) -> None:
        """Abort those that are open; leave those that have ended as they are."""
        ...

    async def note(self, head: Head) -> None:
        """Note something new about the decision that was recorded last. Raises like `record`."""
        ...

    async def listed(self, besides: Collection[Part]) -> list[Open]:
        """Return the open transactions of the application's tasks, except these."""
        ...


async def commit(ledger: Ledger, write: Write, policy: LostPolicy) -> None:
    await ledger.fence()
    head = await ledger.newest()
    verdict = judge(head, write)
    if verdict is Verdict.OVERTAKEN:
        raise Overtaken(write.app, write.version)
    if verdict is Verdict.DECIDE:
        await _decide(ledger, head, write, write.parts)
        return
    if verdict is Verdict.PASSED:
        await ledger.abort(write.parts)
        if head.finished:  # otherwise another driver is about to commit the open ones
            await _sweep(ledger, head, ())
        return
    parts = await ledger.parts_of(head)
    instead = await _instead(ledger, write, parts, policy)
    if instead is None:
        await ledger.abort(set(write.parts) - set(parts or ()))
        await _tidy(ledger, head, parts or ())
    else:
        await _decide(ledger, head, write, instead)


async def abort(ledger: Ledger, write: Write) -> None:
    """Undo a write that failed, unless it was decided before: then complete it as far as possible.
    The rest is left to the next run."""
    await ledger.fence()
    head = await ledger.newest()
    verdict = judge(head, write)
    if verdict is Verdict.FINISH:
        named = await ledger.parts_of(head)
        if named is not None:
            await _commit_decided(ledger, head, named)
            await ledger.abort(set(write.parts) - set(named))
    elif verdict is Verdict.PASSED:
        await ledger.abort(write.parts)
    else:
        await _give_up(ledger, head, write)


async def _give_up(ledger: Ledger, head: Head, write: Write) -> None:
    """Abort the open transactions of this version, also those of tasks that no longer report.

    A transaction that is opened after the list was made belongs to a task that sees the first note.
    Another driver may want to decide on listed transactions. It did not do so before the second
    note was written, because it would have had to fence this driver. It will not do so afterwards,
    because its tasks had not seen the note when they began.
    """
    first = gave_up(head, write.version)
    await ledger.note(first)
    junk = leftovers(await ledger.listed(()), write.turn)
    await ledger.note(gave_up(first, write.version))
    await ledger.abort([*junk, *write.parts])


async def finish(ledger: Ledger, version: int) -> Head:
    """Before a write is planned, commit what was decided about this version, if anything; return
    the newest decision."""
    await ledger.fence()
    head = await ledger.newest()
    if head.version != version or head.finished:
        return head
    parts = await ledger.parts_of(head)
    if parts is None or not await _commit_decided(ledger, head, parts):
        return head
    return replace(head, finished=True)


# A write that nobody can run again: there is nothing to decide, and no other driver.


async def commit_all(ledger: Ledger, write: Write) -> None:
    gone = await ledger.ended_of(write.parts)
    if gone:
        raise TransactionsGone(write.app, write.version, gone)
    outcomes = await ledger.commit(write.parts)
    if not set(outcomes.values()) <= {Outcome.COMMITTED}:
        raise WrittenInPart(outcomes)
    head = Head(write.version, write.turn, 0, write.run, finished=True)
    try:
        await _end_stragglers(ledger, head)
    except (ClientError, KafkaError) as error:
        log.warning("open transactions may have been left behind: %s", error)


async def abort_all(ledger: Ledger, write: Write) -> None:
    await _end_stragglers(ledger, gave_up(NOTHING, write.version))


async def _end_stragglers(ledger: Ledger, head: Head) -> None:
    """Abort open transactions. One that is opened after the list was made belongs to a task that
    sees the note."""
    await ledger.fence()
    await ledger.note(head)
    await ledger.abort(await ledger.listed(()))


# Steps


async def _decide(ledger: Ledger, head: Head, write: Write, parts: tuple[Part, ...]) -> None:
    own = [part for part in parts if part in write.parts]
    gone = own if was_given_up(head, write) else await ledger.ended_of(own)
    if gone:
        raise TransactionsGone(write.app, write.version, gone)
    decision = decided(head, write, parts)
    await ledger.record(decision)
    await _commit_or_raise(ledger, write, parts)
    await ledger.abort(set(write.parts) - set(parts))
    await _tidy(ledger, decision.head, parts)


async def _commit_or_raise(ledger: Ledger, write: Write, parts: tuple[Part, ...]) -> None:
    outcomes = await ledger.commit(parts)
    lost = [part for part, outcome in outcomes.items() if outcome is not Outcome.COMMITTED]
    if lost and all(outcome is Outcome.ABORTED for outcome in outcomes.values()):
        raise TransactionsGone(write.app, write.version, lost)
    if lost:
        raise LostTransactions(write.app, write.version, outcomes)


async def _instead(
    ledger: Ledger, write: Write, parts: tuple[Part, ...] | None, policy: LostPolicy
) -> tuple[Part, ...] | None:
    """Return the parts of a new decision, if the existing one cannot be completed."""
    if parts is not None:
        return replacement(write, await ledger.commit(parts), policy)
    if policy == "fail":
        raise DecisionUnreadable(write.app, write.version)
    return write.parts if policy == "rewrite" else None


async def _commit_decided(ledger: Ledger, head: Head, parts: tuple[Part, ...]) -> bool:
    outcomes = await ledger.commit(parts)
    if set(outcomes.values()) <= {Outcome.COMMITTED}:
        await _mark(ledger, head)
        return True
    return False


async def _tidy(ledger: Ledger, head: Head, parts: tuple[Part, ...]) -> None:
    await asyncio.gather(_mark(ledger, head), _sweep(ledger, head, parts))


async def _mark(ledger: Ledger, head: Head) -> None:
    """Note that the rows are committed. A later driver would find out by itself, only more slowly
    and as long as the brokers remember the transactions."""
    try:
        await ledger.note(replace(head, finished=True))
    except (ClientError, KafkaError) as error:
        log.warning("version %s is committed, but recording this failed: %s", head.version, error)


async def _sweep(ledger: Ledger, head: Head, named: tuple[Part, ...]) -> None:
    """Abort leftovers. The rows are committed; what fails here is tried with the next version."""
    try:
        junk = leftovers(await ledger.listed(named), head.turn, named)
        if junk and (await ledger.newest()).serial == head.serial:
            await ledger.abort(junk)
    except (ClientError, KafkaError) as error:
        log.warning("open transactions may have been left behind: %s", error)
