"""Brokers, Spark's drivers and tasks as a model, for the sink's own steps to run against.

The steps are those of the product (`committing`), and so are the rules; brokers are a few
dictionaries. Every request is two points at which everything may stop: before it takes effect, and
before its answer arrives. Which actor goes on at each point, who is killed and when another driver
begins, is a list of numbers: a story that can be told again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ottla.client.errors import ClientError
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.spark.sink import committing
from ottla.spark.sink.decisions import (
    NOTHING,
    Decision,
    Head,
    LostPolicy,
    Open,
    Outcome,
    Part,
    Write,
    may_leave_out,
    was_overtaken,
)
from ottla.spark.sink.errors import SinkError
from ottla.spark.sink.names import TaskId, slot_of

T = TypeVar("T")

APP = "app"
FAILURES = (SinkError, ClientError)
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


class Fenced(ClientError):
    """What a broker says to a producer that is not the newest of its id."""


class NoAnswer(ClientError):
    """Whether the request took effect is not known."""


# Brokers


@dataclass
class Transaction:
    producer: int
    epoch: int = 0
    state: str = ""
    row: tuple[int, int] | None = None


class Brokers:
    """With transactions of the first protocol, whose end leaves the epoch, or of the second."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.transactions: dict[str, Transaction] = {}
        self.rows: Counter[tuple[int, int]] = Counter()
        """Committed: by batch and task, how often."""
        self.driver = 0
        self.head = NOTHING
        self.records: dict[int, Decision] = {}
        self.harm: list[PreparedTransaction] = []
        """What was decided, and then aborted by somebody."""

    def init(self, name: str) -> int:
        one = self.transactions.setdefault(name, Transaction(len(self.transactions)))
        one.epoch += 2 if one.state == OPEN else 1
        one.state = ""
        return one.epoch

    def write(self, name: str, epoch: int, row: tuple[int, int]) -> None:
        one = self.transactions[name]
        if one.epoch != epoch or (self.protocol == 2 and one.state in (COMMITTED, ABORTED)):
            raise Fenced(name)
        one.state, one.row = OPEN, row

    def end(self, prepared: PreparedTransaction, *, commit: bool) -> Outcome:
        """What has become of it; None of these may change what has ended."""
        one = self.transactions[prepared.transactional_id]
        wanted = COMMITTED if commit else ABORTED
        step = self.protocol - 1
        if one.epoch == prepared.producer_epoch and one.state == OPEN:
            if not commit and any(
                part.prepared == prepared for made in self.records.values() for part in made.parts
            ):
                self.harm.append(prepared)
            one.state = wanted
            one.epoch += step
            if commit:
                assert one.row is not None
                self.rows[one.row] += 1
        elif one.epoch not in (prepared.producer_epoch, prepared.producer_epoch + 1):
            return Outcome.UNKNOWN
        return {COMMITTED: Outcome.COMMITTED, ABORTED: Outcome.ABORTED}.get(
            one.state, Outcome.UNKNOWN
        )

    def time_out(self, name: str) -> None:
        one = self.transactions[name]
        if one.state == OPEN:
            one.state = ABORTED
            one.epoch += 1

    def open_ones(self) -> list[PreparedTransaction]:
        return [
            PreparedTransaction(name, one.producer, one.epoch)
            for name, one in self.transactions.items()
            if one.state == OPEN
        ]


# Time


Waiting = tuple[str, str, asyncio.Future[None]]
"""Who waits, before or after what, and how it is told to go on."""


class Scheduler:
    """Lets one actor do one thing at a time, as the story says."""

    def __init__(self, *, answers: bool = True) -> None:
        """Without points before answers there are half as many: enough if nobody crashes."""
        self.waiting: list[Waiting] = []
        self.answers = answers

    async def point(self, actor: str, what: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((actor, what, future))
        await future

    async def request(self, actor: str, what: str, effect: Callable[[], T]) -> T:
        await self.point(actor, f"before {what}")
        result, refusal = None, None
        try:
            result = effect()
        except Fenced as error:
            refusal = error
        if self.answers:
            await self.point(actor, f"after {what}")
        if refusal is not None:
            raise refusal
        return cast("T", result)

    async def settle(self) -> None:
        """Until everybody waits."""
        for _ in range(12):
            await asyncio.sleep(0)
        self.waiting = [one for one in self.waiting if not one[2].done()]

    async def go(self, index: int = 0, *, answered: bool = True) -> None:
        _, what, future = self.waiting.pop(index)
        if answered:
            future.set_result(None)
        else:
            future.set_exception(NoAnswer(what))
        await self.settle()

    def sleep(self) -> list[Waiting]:
        """All who wait now, and will not go on until they are in `waiting` again."""
        asleep, self.waiting = self.waiting, []
        return asleep


class ModelLedger:
    def __init__(self, brokers: Brokers, scheduler: Scheduler, actor: str) -> None:
        self.brokers, self.scheduler, self.actor = brokers, scheduler, actor
        self.fence_number = 0

    async def _do(self, what: str, effect: Callable[[], T]) -> T:
        return await self.scheduler.request(self.actor, what, effect)

    async def fence(self) -> None:
        def effect() -> None:
            self.brokers.driver += 1
            self.fence_number = self.brokers.driver

        await self._do("fence", effect)

    async def newest(self) -> Head:
        return await self._do("newest", lambda: self.brokers.head)

    async def parts_of(self, head: Head) -> tuple[Part, ...] | None:
        return await self._do("parts_of", lambda: self.brokers.records[head.serial].parts)

    async def ended_of(self, parts: Sequence[Part]) -> list[Part]:
        def effect() -> list[Part]:
            found = self.brokers.open_ones()
            return [part for part in parts if part.prepared not in found]

        return await self._do("ended_of", effect)

    async def record(self, decision: Decision) -> None:
        def effect() -> None:
            self._check()
            self.brokers.records[decision.head.serial] = decision
            self.brokers.head = decision.head

        await self._do("record", effect)

    async def note(self, head: Head) -> None:
        def effect() -> None:
            self._check()
            self.brokers.head = head

        await self._do("note", effect)

    def _check(self) -> None:
        if self.fence_number != self.brokers.driver:
            raise Fenced("driver")

    async def commit(self, parts: Sequence[Part]) -> dict[Part, Outcome]:
        return {part: await self._end(part, commit=True) for part in parts}

    async def abort(self, prepared: Iterable[Part | Open]) -> None:
        for one in prepared:
            await self._end(one, commit=False)

    async def _end(self, one: Part | Open, *, commit: bool) -> Outcome:
        what = "commit" if commit else "abort"
        return await self._do(what, lambda: self.brokers.end(one.prepared, commit=commit))

    async def listed(self, besides: Collection[Part]) -> list[Open]:
        known = {part.prepared for part in besides}

        def effect() -> list[Open]:
            found = [one for one in self.brokers.open_ones() if one not in known]
            return [Open(_name(one), one) for one in found]

        return await self._do("listed", effect)


def _name(prepared: PreparedTransaction) -> TaskId:
    name = TaskId.parse(prepared.transactional_id)
    assert name is not None
    return name


# Spark


@dataclass
class Told:
    """What a task tells its driver."""

    parts: tuple[Part, ...] = ()
    left_out: bool = False
    given_up_count: int = 0


@dataclass
class World:
    batches: int
    tasks: int
    brokers: Brokers
    policy: LostPolicy = "fail"
    scheduler: Scheduler = field(default_factory=Scheduler)
    done: set[int] = field(default_factory=set)
    """Spark's log of batches that are committed, which all drivers share."""
    drivers: list[asyncio.Task[None]] = field(default_factory=list)
    workers: list[tuple[str, asyncio.Task[Told]]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def start(self, *, speculative: bool = False, fails: bool = False) -> None:
        """`fails`: before its first commit, for whatever reason; then it aborts."""
        run = f"{len(self.drivers):08x}"
        work = self._drive(run, speculative, fails)
        self.drivers.append(asyncio.get_running_loop().create_task(work, name=run))

    async def _drive(self, run: str, speculative: bool, fails: bool) -> None:
        """One run of the query: it ends with its first failure, or with the last batch."""
        for batch in range(min(set(range(self.batches + 1)) - self.done), self.batches):
            ledger = ModelLedger(self.brokers, self.scheduler, run)
            told: list[Told] = []
            try:
                told = await self._tasks(run, batch, speculative)
                if fails:
                    raise SinkError("a task failed")
                await committing.commit(ledger, _write(run, batch, told), self.policy)
            except FAILURES as error:
                self.errors.append(error)
                await self._abort(run, batch, told)
                return
            await self.scheduler.request(run, "commit log", lambda: self.done.add(batch))  # noqa: B023

    async def _abort(self, run: str, batch: int, told: list[Told]) -> None:
        ledger = ModelLedger(self.brokers, self.scheduler, run)
        try:
            await committing.abort(ledger, _write(run, batch, told))
        except FAILURES as error:
            self.errors.append(error)

    async def _tasks(self, run: str, batch: int, speculative: bool) -> list[Told]:
        """Of each task the first attempt that comes to its end; the others are not heard of."""
        told = []
        for task in range(self.tasks):
            attempts = [self._attempt(run, batch, task, 0)]
            if speculative:
                attempts.append(self._attempt(run, batch, task, 1))
            told.append(await _first(attempts))
        return told

    def _attempt(self, run: str, batch: int, task: int, attempt: int) -> asyncio.Task[Told]:
        actor = f"{run} task {task}-{attempt}"
        work = self._write_rows(actor, TaskId(APP, run, slot_of(batch), task, attempt), batch)
        made = asyncio.get_running_loop().create_task(work, name=actor)
        made.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.workers.append((run, made))
        return made

    async def _write_rows(self, actor: str, name: TaskId, batch: int) -> Told:
        do = self.scheduler.request
        before = await do(actor, "newest", lambda: self.brokers.head)
        if may_leave_out(before, batch, name.run):
            return Told(left_out=True)
        epoch = await do(actor, "init", lambda: self.brokers.init(str(name)))
        row = (batch, name.task)
        await do(actor, "write", lambda: self.brokers.write(str(name), epoch, row))
        producer = self.brokers.transactions[str(name)].producer
        prepared = PreparedTransaction(str(name), producer, epoch)
        after = await do(actor, "newest", lambda: self.brokers.head)
        if was_overtaken(before, after, batch):
            await do(actor, "abort", lambda: self.brokers.end(prepared, commit=False))
            return Told(left_out=True)
        return Told((Part(name.task, prepared),), given_up_count=before.given_up_count)

    async def stop(self) -> None:
        for run in range(len(self.drivers)):
            self.kill(run, with_workers=True)
        await self.scheduler.settle()

    def kill(self, run: int, *, with_workers: bool) -> None:
        """A driver's process; its tasks may live on for a while."""
        self.drivers[run].cancel()
        if with_workers:
            for owner, worker in self.workers:
                if owner == f"{run:08x}":
                    worker.cancel()


async def _first(attempts: list[asyncio.Task[Told]]) -> Told:
    """Failed attempts count if all have failed."""
    pending: set[asyncio.Task[Told]] = set(attempts)
    while True:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            if one.exception() is None:
                return one.result()
        if not pending:
            raise SinkError("all attempts failed")


def _write(run: str, batch: int, told: list[Told]) -> Write:
    return Write(
        APP,
        batch,
        batch,
        run,
        tuple(part for one in told for part in one.parts),
        given_up_count=min((one.given_up_count for one in told if one.parts), default=0),
        complete=not any(one.left_out for one in told),
    )
