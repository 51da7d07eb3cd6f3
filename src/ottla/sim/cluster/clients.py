"""The client machines of a simulated cluster and the programs that run on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from ottla.sim.cluster.churn import Churn
from ottla.sim.cluster.copier import Copier
from ottla.sim.cluster.intruder import AclChurn, Intruder
from ottla.sim.cluster.quotas import limited
from ottla.sim.cluster.quotas.book import QuotaBook
from ottla.sim.cluster.quotas.churn import QuotaChurn
from ottla.sim.cluster.quotas.greedy import Connector, Greedy, Mutator
from ottla.sim.cluster.quotas.limited import FREE
from ottla.sim.cluster.readers import GroupMember, LoneReader
from ottla.sim.cluster.shape import Shape
from ottla.sim.cluster.voters.churn import VoterChurn
from ottla.sim.cluster.work import Client, Work
from ottla.sim.cluster.writers import Writer, hasty_writer, transactional_writer
from ottla.sim.history import Violation
from ottla.sim.process import ProcessDied
from ottla.sim.runtime import SimRuntime
from ottla.sim.world import World

HOSTS = ["client-1", "client-2"]
REBOOT_S_MAX = 3.0

WRITERS = (Writer, Churn, VoterChurn, AclChurn, Intruder, QuotaChurn, Greedy, Mutator, Connector)
"""Those who end first."""

Make = Callable[[SimRuntime], Client]


class Clients:
    def __init__(self, world: World, work: Work, book: QuotaBook) -> None:
        self._world = world
        self._work = work
        self._chance = world.chance("clients")
        self._programs = dict(zip(HOSTS, _drawn(work, work.shape, self._chance), strict=True))
        if work.shape.limited is not None:
            self._programs[limited.HOST] = _strangers(work, book)
        self._writers: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self.names: set[str] = set()
        """All clients that are expected to make progress."""
        self.failures: list[BaseException] = []

    def start(self) -> None:
        for host in self._programs:
            self._boot(host)

    def restart(self, host: str) -> None:
        """Start the machine again some time after it was killed."""
        self._world.loop.call_later(self._chance.random() * REBOOT_S_MAX, self._boot, host)

    def _boot(self, host: str) -> None:
        if self._world.machine(host).is_up:
            return
        runtime = self._world.boot(host)
        for make in self._programs[host]:
            client = make(runtime)
            self.names.add(client.name)
            running = runtime.run(client.run(), name=client.name)
            running.add_done_callback(self._ended)
            writes = isinstance(client, WRITERS)
            (self._writers if writes else self._readers).append(running)

    def _ended(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, ProcessDied):
            self.failures.append(error)

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]

    async def stop_writing(self, within_s: float) -> None:
        self._work.writing = False
        await self._end(self._writers, within_s)

    async def stop_reading(self, within_s: float) -> None:
        self._work.reading = False
        await self._end(self._readers, within_s)

    async def _end(self, programs: list[asyncio.Future[None]], within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*programs, return_exceptions=True)
        except TimeoutError:
            raise Violation(f"clients did not end: {self._world.loop.waiting()}") from None


def _drawn(work: Work, shape: Shape, chance: random.Random) -> tuple[list[Make], list[Make]]:
    """Draw the programs of the two machines; they differ from seed to seed."""
    plain, source = shape.plain, shape.source
    protocol = chance.choice(("classic", "consumer"))
    copying = chance.choice(("classic", "consumer"))
    unsafe: dict[str, Any] = {"acks": chance.choice((0, 1)), "enable_idempotence": False}
    retrying: dict[str, Any] = {
        "enable_idempotence": False,
        "max_in_flight_requests_per_connection": 1,
    }

    def writer(name: str, topic: Any, **options: Any) -> Make:
        return lambda runtime: Writer(work, runtime, name, topic, **options)

    def member(name: str) -> Make:
        return lambda runtime: GroupMember(
            work, runtime, name, plain, group="members", protocol=protocol
        )

    one: list[Make] = [
        writer("idempotent", plain),
        lambda runtime: transactional_writer(work, runtime, "transactional", source),
        lambda runtime: LoneReader(work, runtime, "reader", plain),
        lambda runtime: Copier(work, runtime, "copier", copying),
        lambda runtime: Churn(work, runtime, "churn"),
    ]
    two: list[Make] = [
        writer("retrying", plain, **retrying),
        lambda runtime: LoneReader(work, runtime, "source-reader", source),
        member("member"),
    ]
    extra: list[Make] = [
        writer("careless", plain, **unsafe),
        writer("idempotent-2", source),
        lambda runtime: transactional_writer(work, runtime, "transactional-2", plain),
        lambda runtime: Copier(work, runtime, "copier-2", copying),
        member("member-2"),
    ]
    two += [make for make in extra if chance.random() < 0.5]
    if (table := shape.table) is not None:
        one.append(writer("table-writer", table))
        two += [
            lambda runtime: transactional_writer(work, runtime, "table-transactions", table),
            lambda runtime: LoneReader(work, runtime, "table-reader", table),
        ]
    if shape.hasty:
        one.append(lambda runtime: hasty_writer(work, runtime, "hasty", plain))
        two.append(lambda runtime: hasty_writer(work, runtime, "hasty-2", source))
    if shape.guarded:
        one.append(lambda runtime: AclChurn(work, runtime, "acl-churn"))
        two.append(lambda runtime: Intruder(work, runtime, "intruder"))
    if shape.first_voters:
        two.append(lambda runtime: VoterChurn(work, runtime, "voter-churn"))
    return one, two


def _strangers(work: Work, book: QuotaBook) -> list[Make]:
    """Return the clients that take all they get, and who limits them."""
    return [
        lambda runtime: QuotaChurn(work, runtime, "quota-churn"),
        lambda runtime: Greedy(work, book, runtime, "greedy"),
        lambda runtime: Greedy(work, book, runtime, "greedy-2"),
        lambda runtime: Greedy(work, book, runtime, "free", FREE),
        lambda runtime: Mutator(work, book, runtime, "mutator"),
        lambda runtime: Connector(work, book, runtime, "connector"),
    ]
