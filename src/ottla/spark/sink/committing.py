"""How a driver ends a write: the steps, in an order in which any of them may be the last.

    fence     become the one driver of the application
    newest    the newest decision: from here on it is the newest until somebody else fences
    check     all own transactions are open still
    record    the decision, in a transaction that a fenced driver cannot commit
    commit    the transactions that the decision names
    mark      note that this is done, for those who come when brokers have forgotten
    sweep     abort what no decision will ever name

Whoever runs the version again after a crash comes to the same end. The steps are those of a
`Ledger`: of brokers in `ledger.py`, and of a model of them in the tests.
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
    """What the steps ask of brokers, for one application."""

    async def fence(self) -> None: ...

    async def newest(self) -> Head:
        """`NOTHING` if nothing is decided."""
        ...

    async def parts_of(self, head: Head) -> tuple[Part, ...] | None:
        """None if the record of the decision is not there any more."""
        ...

    async def gone(self, parts: Sequence[Part]) -> list[Part]:
        """Those that are not open any more."""
        ...

    async def record(self, decision: Decision) -> None:
        """Raises, and nothing has happened, if another driver has fenced this one."""
        ...

    async def commit(self, parts: Sequence[Part]) -> dict[Part, Outcome]: ...

    async def abort(self, prepared: Iterable[Part | Open]) -> None:
        """Those that are open; what has ended, however, is left so."""
        ...

    async def note(self, head: Head) -> None:
        """Something new about the decision that was recorded last. Raises like `record`."""
        ...

    async def listed(self, besides: Collection[Part]) -> list[Open]:
        """The open transactions of the application's tasks, but these."""
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
        if head.finished:  # else somebody is about to commit what is open
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
    """Undo a write that failed, unless it was decided before it did: then see it through, as far
    as that is possible. What is left is for the next run."""
    await ledger.fence()
    head = await ledger.newest()
    verdict = judge(head, write)
    if verdict is Verdict.FINISH:
        named = await ledger.parts_of(head)
        if named is not None:
            await _see_through(ledger, head, named)
            await ledger.abort(set(write.parts) - set(named))
    elif verdict is Verdict.PASSED:
        await ledger.abort(write.parts)
    else:
        await _give_up(ledger, head, write)


async def _give_up(ledger: Ledger, head: Head, write: Write) -> None:
    """Tasks that nobody hears of any more have open transactions, too. Whichever is opened after
    the list was made is of a task that sees the first note. Another driver may want to decide on
    what is listed: it did not before the second note was written, as it would have had to fence
    this one, and will not after that, as its tasks had not seen the note when they began."""
    first = gave_up(head, write.version)
    await ledger.note(first)
    junk = leftovers(await ledger.listed(()), write.turn)
    await ledger.note(gave_up(first, write.version))
    await ledger.abort([*junk, *write.parts])


async def finish(ledger: Ledger, version: int) -> Head:
    """Before a write is planned: commit what was decided about this version, if it was, and say
    what is the newest decision now."""
    await ledger.fence()
    head = await ledger.newest()
    if head.version != version or head.finished:
        return head
    parts = await ledger.parts_of(head)
    if parts is None or not await _see_through(ledger, head, parts):
        return head
    return replace(head, finished=True)


# A write that nobody can run again: there is nothing to decide, and no other driver


async def commit_all(ledger: Ledger, write: Write) -> None:
    gone = await ledger.gone(write.parts)
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
    """Whichever transaction is opened after the list was made is of a task that sees the note."""
    await ledger.fence()
    await ledger.note(head)
    await ledger.abort(await ledger.listed(()))


# Steps


async def _decide(ledger: Ledger, head: Head, write: Write, parts: tuple[Part, ...]) -> None:
    own = [part for part in parts if part in write.parts]
    gone = own if was_given_up(head, write) else await ledger.gone(own)
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
    """What to decide on now, if the decision there is cannot be seen through."""
    if parts is not None:
        return replacement(write, await ledger.commit(parts), policy)
    if policy == "fail":
        raise DecisionUnreadable(write.app, write.version)
    return write.parts if policy == "rewrite" else None


async def _see_through(ledger: Ledger, head: Head, parts: tuple[Part, ...]) -> bool:
    outcomes = await ledger.commit(parts)
    if set(outcomes.values()) <= {Outcome.COMMITTED}:
        await _mark(ledger, head)
        return True
    return False


async def _tidy(ledger: Ledger, head: Head, parts: tuple[Part, ...]) -> None:
    await asyncio.gather(_mark(ledger, head), _sweep(ledger, head, parts))


async def _mark(ledger: Ledger, head: Head) -> None:
    """The rows are committed: whoever comes later would find that out by himself, only slower, as
    long as the brokers remember the transactions."""
    try:
        await ledger.note(replace(head, finished=True))
    except (ClientError, KafkaError) as error:
        log.warning("version %s is committed, but this could not be noted: %s", head.version, error)


async def _sweep(ledger: Ledger, head: Head, named: tuple[Part, ...]) -> None:
    """The rows are committed: what is left is tried again with the next version."""
    try:
        junk = leftovers(await ledger.listed(named), head.turn, named)
        if junk and (await ledger.newest()).serial == head.serial:
            await ledger.abort(junk)
    except (ClientError, KafkaError) as error:
        log.warning("open transactions may have been left behind: %s", error)
