"""One broker with several lives: load, crash, restart, and nothing promised may be missing.

A life ends in a clean stop, a kill (the page cache stays) or a power loss (only synced data is
certain), at a random time or inside a random disk operation, which may be part of recovery at
start-up. After each restart every partition is read from its start and compared with the history.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from ottla.client.errors import ClientError
from ottla.config.broker import BrokerConfig
from ottla.network.opening import open_connection
from ottla.node import Node
from ottla.sim.history import End, Violation
from ottla.sim.process import ProcessDied
from ottla.sim.runtime import SimRuntime
from ottla.sim.scenarios.mischief import make_mischief
from ottla.sim.scenarios.topics import SimTopic, drawn_topic
from ottla.sim.scenarios.workload import (
    Ledger,
    Reader,
    Writer,
    create_topic,
    read_all,
    topic_id,
)
from ottla.sim.weather import drawn
from ottla.sim.world import World

BROKER = "broker"
CLIENT = "client"
ADDRESS = (BROKER, 9092)
SECOND_DIR = "/data/b"
STARTS_MAX = 20
ATTEMPTS_MAX = 1000
START_S_MAX = 300.0
CHECK_S_MAX = 600.0


@dataclass
class Summary:
    lives: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    checked: int = 0
    crashes_in_start: int = 0
    disks_broken: int = 0

    def __str__(self) -> str:
        ends = ", ".join(f"{count} x {end}" for end, count in self.ends.items())
        return (
            f"{self.lives} lives ({ends}; {self.crashes_in_start} crashes while starting, "
            f"{self.disks_broken} broken disks), "
            f"{self.acknowledged} records acknowledged, {self.checked} checked"
        )


class SingleNode:
    def __init__(self, world: World) -> None:
        self.world = world
        self.chance: random.Random = world.random
        self.summary = Summary()
        world.network.weather = drawn(self.chance)
        self._flush = self.chance.choice((None, None, 1, 1, 10))
        self._config = self._drawn_config()
        self._topics: list[SimTopic] = []
        self._last_end = End.CLEAN_STOP
        self._lost_power = False
        self._client = world.boot(CLIENT)
        self._ledger = Ledger()
        self._node: Node

    def _drawn_config(self) -> BrokerConfig:
        settings = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{BROKER}:{ADDRESS[1]},CONTROLLER://{BROKER}:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/data/a" if self.chance.random() < 0.7 else f"/data/a,{SECOND_DIR}",
            "log.retention.check.interval.ms": "1000",
            "log.flush.offset.checkpoint.interval.ms": str(self.chance.choice((300, 60_000))),
            "log.index.size.max.bytes": "4096",
        }
        if self._flush is not None:
            settings["log.flush.interval.messages"] = str(self._flush)
        return BrokerConfig.parse(settings)

    async def run(self, lives: int) -> Summary:
        for _ in range(lives):
            runtime = await self._start()
            await self._check()
            await self._grow()
            await self._live(runtime)
            self.summary.lives += 1
        await self._start()
        await self._check()
        return self.summary

    # Starting, as often as it takes.

    async def _start(self) -> SimRuntime:
        for attempt in range(STARTS_MAX):
            runtime = self.world.boot(BROKER)
            if attempt < 3 and self.chance.random() < 0.3:
                self._doom(within=60)
            try:
                async with asyncio.timeout(START_S_MAX):
                    await runtime.run(self._open(runtime), name="start")
            except ProcessDied:
                self.summary.crashes_in_start += 1
                continue
            runtime.process.operations_until_crash = None
            return runtime
        raise Violation(f"the broker did not start in {STARTS_MAX} attempts")

    async def _open(self, runtime: SimRuntime) -> None:
        self._node = Node(runtime, self._config)
        await self._node.start()

    def _doom(self, within: int) -> None:
        """Let the process die inside one of its next disk operations."""
        power_loss = self.chance.random() < 0.5
        self.world.crash_within(BROKER, self.chance.randint(0, within), power_loss=power_loss)
        runtime = self.world.machine(BROKER).runtime
        assert runtime is not None
        crash = runtime.process.crash

        def crash_and_note() -> None:
            self._lost_power = self._lost_power or power_loss
            crash()

        runtime.process.crash = crash_and_note

    # Checking the data that is left.

    async def _check(self) -> None:
        end = End.POWER_LOSS if self._lost_power else self._last_end
        self._lost_power = False
        async with asyncio.timeout(CHECK_S_MAX):
            await self._client.run(self._check_as_client(end), name="check")

    async def _check_as_client(self, end: End) -> None:
        connection = await open_connection(self._client, ADDRESS, client_id="checker")
        for topic in self._topics:
            if topic.topic_id and await topic_id(connection, topic.name) != topic.topic_id:
                raise Violation(f"{topic.name} came back with another topic id")
            for index, history in enumerate(topic.partitions):
                if topic.topic_id:
                    log = await read_all(connection, topic, index)
                    history.check(log, end)
                    self.summary.checked += len(log)
        connection.close()

    # Working.

    async def _grow(self) -> None:
        if not self._topics or self.chance.random() < 0.3:
            self._topics.append(drawn_topic(len(self._topics), self.chance, self._flush))

    async def _live(self, runtime: SimRuntime) -> None:
        stopping = self.chance.random() < 0.2
        running = self._start_clients()
        break_disk = self._break_disk if len(self._config.log_dirs) > 1 else None
        mischief = asyncio.create_task(
            make_mischief(self.world, BROKER, CLIENT, self.chance, break_disk)
        )
        await asyncio.sleep(0.01 + self.chance.expovariate(1.0) * 0.7)
        try:
            if stopping:
                await self._stop(runtime)
            else:
                await self._crash(runtime)
        finally:
            mischief.cancel()
            self.world.network.heal()
            self._replace_disk()
            await self._end_clients(running)
        self.summary.acknowledged += self._ledger.acknowledged
        self._note_failures(runtime)

    def _start_clients(self) -> list[asyncio.Future[None]]:
        self._ledger = Ledger()
        writers, readers = self.chance.randint(1, 4), self.chance.randint(0, 3)
        return [
            self._client.run(self._work(number, number < writers), name=f"client {number}")
            for number in range(writers + readers)
        ]

    async def _work(self, number: int, writes: bool) -> None:
        """Run one client after another, each on its own connection. A producer that comes back
        after a cut is a new one, because bytes of its old connection may still be on their way."""
        for attempt in range(ATTEMPTS_MAX):
            name = f"w{self.summary.lives}.{number}.{attempt}"
            kind = Writer if writes else Reader
            try:
                connection = await open_connection(self._client, ADDRESS, client_id=name)
            except ClientError:
                await asyncio.sleep(0.05)
                continue
            try:
                for topic in self._topics:
                    if not topic.topic_id:
                        await create_topic(connection, topic)
                await kind(self._client, name, self._topics, self._ledger).run(connection)
            except ClientError:
                pass
            finally:
                connection.close()

    def _break_disk(self) -> None:
        """Let the second data dir fail for the rest of this life; the first one has to go on."""
        if self.world.machine(BROKER).is_up:
            self.summary.disks_broken += 1
            self._ledger.disk_broken = True
            operations = self.chance.choice((("sync",), ("write",), ("read",), ()))
            self.world.machine(BROKER).faults.fail(SECOND_DIR, *operations)

    def _replace_disk(self) -> None:
        """Replace the broken disk. The power goes too: after a failed sync the cache is wrong."""
        if self._ledger.disk_broken:
            self.world.crash(BROKER, power_loss=True)
            self._lost_power = True
            self.world.machine(BROKER).faults.heal()

    async def _stop(self, runtime: SimRuntime) -> None:
        self._ledger.refusals_allowed = True
        self._last_end = End.CLEAN_STOP
        async with asyncio.timeout(START_S_MAX):
            await runtime.run(self._close(runtime), name="stop")
        if not self._ledger.disk_broken:
            for topic in self._topics:
                for history in topic.partitions:
                    history.stopped_cleanly()
        power_loss = self.chance.random() < 0.5
        self.world.crash(BROKER, power_loss=power_loss)

    async def _close(self, runtime: SimRuntime) -> None:
        await self._node.stop()
        await runtime.close()

    async def _crash(self, runtime: SimRuntime) -> None:
        """Crash the broker at once, or inside one of its next disk operations."""
        self._last_end = End.KILL
        if self.chance.random() < 0.5:
            self._lost_power = self.chance.random() < 0.5
            self.world.crash(BROKER, power_loss=self._lost_power)
            return
        self._doom(within=200)
        for _ in range(100):
            if not runtime.process.alive:
                return
            await asyncio.sleep(0.05)
        self.world.crash(BROKER)

    async def _end_clients(self, running: list[asyncio.Future[None]]) -> None:
        """Wait a while for answers that are on their way, then kill the clients; the outcomes of
        the remaining requests stay unknown."""
        await asyncio.sleep(self.chance.random() * 2)
        self.world.crash(CLIENT)
        for outcome in await asyncio.gather(*running, return_exceptions=True):
            for error in _causes(outcome):
                if not isinstance(error, ProcessDied):
                    raise error
        self._client = self.world.boot(CLIENT)

    def _note_failures(self, runtime: SimRuntime) -> None:
        end = (End.POWER_LOSS if self._lost_power else self._last_end).value
        self.summary.ends[end] = self.summary.ends.get(end, 0) + 1
        if failures := [*runtime.failures, *self.world.loop.failures]:
            raise Violation("errors that nobody handled: " + "; ".join(failures))


def _causes(outcome: object) -> list[BaseException]:
    if isinstance(outcome, BaseExceptionGroup):
        return [cause for inner in outcome.exceptions for cause in _causes(inner)]
    return [outcome] if isinstance(outcome, BaseException) else []


def play(seed: int, *, lives: int = 6, world: World | None = None) -> Summary:
    """Play one whole run; raise `Violation` or whatever else went wrong."""
    world = world or World(seed, time_limit_s=36_000)
    return world.run(_play(world, lives))


async def _play(world: World, lives: int) -> Summary:
    return await SingleNode(world).run(lives)
