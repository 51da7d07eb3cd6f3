"""A cluster with all its clients in a storm, then a calm in which everything must work.

For about a minute all kinds of faults are injected, within what a cluster must survive, while
producers, readers, groups, an exactly-once copy and administration go on, and the state of all
nodes is checked many times a second. Then all faults end. Within bounded time every client must
make progress, every partition must be in sync and every transaction must have ended. At the end
everything is read and the history is checked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.sim.checker import anomalies, compacted_count, table_anomalies
from ottla.sim.cluster import compaction, hasty_producers, rights, snapshots
from ottla.sim.cluster.clients import HOSTS, Clients
from ottla.sim.cluster.compaction import with_compaction
from ottla.sim.cluster.copier import GROUP
from ottla.sim.cluster.ending import Ending, NotYet
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.hasty_producers import with_hasty_producers
from ottla.sim.cluster.invariants import Invariants
from ottla.sim.cluster.nemesis import HARMLESS, Nemesis, Storm
from ottla.sim.cluster.quotas import limited as quotas
from ottla.sim.cluster.quotas.book import QuotaBook
from ottla.sim.cluster.quotas.limited import with_quotas
from ottla.sim.cluster.rights import with_rights
from ottla.sim.cluster.shape import SPLIT_RATES, Shape, drawn_shape
from ottla.sim.cluster.snapshots import with_snapshots
from ottla.sim.cluster.voters import dynamic_quorum
from ottla.sim.cluster.voters.dynamic_quorum import with_voters
from ottla.sim.cluster.work import Work
from ottla.sim.history import Violation
from ottla.sim.weather import drawn
from ottla.sim.world import World

LOOK_EVERY_S = 0.1
READY_S_MAX = 60.0
PROGRESS_S_MAX = 90.0
END_S_MAX = 120.0
OBSERVER = "observer"
ANY_STORM = Storm()
FAIR_STORM = Storm(kinds=tuple(HARMLESS))
FAIR_STREAM = "fair"
FAIR_RATE = 0.1
"""The share of drawn storms without breaking faults: no client may get an error."""
SHOWN_MAX = 8


@dataclass
class Summary:
    shape: str = ""
    records: int = 0
    acknowledged: int = 0
    read: int = 0
    transactions: int = 0
    compacted: int | None = None
    troubles: dict[str, int] = field(default_factory=dict)
    healed_in_s: float = 0.0
    voter_changes: int = 0
    refusals: int = 0
    throttled: int = 0
    metadata_start: int = 0
    """Nodes have replaced the metadata log before this offset by a snapshot."""

    def __str__(self) -> str:
        troubles = ", ".join(f"{count} {name}" for name, count in sorted(self.troubles.items()))
        gone = "" if self.compacted is None else f", {self.compacted} compacted away"
        quorum = f"{self.voter_changes} changes of voters; " if self.voter_changes else ""
        if self.metadata_start:
            quorum += f"metadata from a snapshot at {self.metadata_start}; "
        refused = f"{self.refusals} refused to an intruder; " if self.refusals else ""
        refused += f"{self.throttled} answers throttled; " if self.throttled else ""
        return (
            f"{self.shape}; {self.records} records sent, {self.acknowledged} acknowledged{gone}, "
            f"{self.read} read, {self.transactions} transactions; {quorum}{refused}"
            f"{troubles or 'no trouble'}; well again after {self.healed_in_s:.1f} s"
        )


class ClusterStory:
    def __init__(self, world: World, shape: Shape, storm: Storm) -> None:
        self.world = world
        self.shape = shape
        world.network.weather = drawn(world.random, SPLIT_RATES)
        self.fleet = Fleet(world, self.shape)
        self.work = Work(
            self.shape, world.loop.time, self.fleet.metadata_folders, is_fair=storm.is_fair
        )
        self.work.history.copies[self.shape.source.name] = self.shape.copy.name
        self.invariants = Invariants(self.fleet)
        self.book = QuotaBook(self.fleet)
        self.clients = Clients(world, self.work, self.book)
        self.nemesis = Nemesis(world, self.fleet, HOSTS, self.clients.restart, storm)
        self.storm = storm
        self.ending = Ending(self.work, world.boot(OBSERVER), self._check)

    async def run(self) -> Summary:
        self.fleet.format()
        for node in self.shape.nodes:
            self.fleet.start(node.id)
        await self.ending.within(READY_S_MAX, "creating topics", self.ending.create_topics)
        if self.shape.guarded:
            await self.ending.within(READY_S_MAX, "giving rights", self._give_rights)
        if self.storm.working:
            self.clients.start()
        await self._storm(self.storm.seconds)
        healed_in_s = await self._calm()
        if self.storm.working:
            await self._drain()
            self._check_history()
        if self.shape.first_voters:
            await self.ending.within(END_S_MAX, "voting by all", self.ending.everybody_votes)
        return self._summary(healed_in_s)

    async def _give_rights(self) -> None:
        await self.ending.give_rights()
        count = len(rights.first_acls(self.shape))
        for node_id, node in self.fleet.running():
            if not node.has_metadata or len(node.metadata.image.acls) < count:
                raise NotYet(f"node {node_id} does not have all ACLs")

    async def _storm(self, seconds: float) -> None:
        trouble = asyncio.create_task(self.nemesis.run())
        try:
            until = self.world.loop.time() + seconds
            while self.world.loop.time() < until:
                await asyncio.sleep(LOOK_EVERY_S)
                self._check()
        finally:
            trouble.cancel()
        await self.nemesis.heal()

    def _check(self) -> None:
        self.invariants.look()
        if self.shape.limited is not None:
            self.book.look()
        self.fleet.check()
        self.clients.check()
        if self.work.too_late is not None:
            raise Violation(self.work.too_late)
        if self.work.refused_workers is not None:
            raise Violation(self.work.refused_workers)

    async def _calm(self) -> float:
        """Return the time until every client made progress and every partition was in sync."""
        healed_s = self.work.healed_s = self.world.loop.time()

        async def everybody_got_on() -> None:
            if self.storm.working and not self.book.none_left():
                raise NotYet("there are still quotas")
            progress = self.work.progress
            if late := [n for n in sorted(self.clients.names) if progress.get(n, 0.0) <= healed_s]:
                raise NotYet(f"nothing done by {', '.join(late)}; {self.work.troubles}")

        await self.ending.within(PROGRESS_S_MAX, "work of all clients", everybody_got_on)
        await self.ending.within(PROGRESS_S_MAX, "getting in sync", self.ending.everything_in_sync)
        return self.world.loop.time() - healed_s

    async def _drain(self) -> None:
        await self.clients.stop_writing(END_S_MAX)
        shape, ending = self.shape, self.ending
        read = ending.read_to_the_end
        await ending.within(END_S_MAX, "the end of transactions", lambda: read(shape.plain))
        await ending.within(END_S_MAX, "the end of transactions", lambda: read(shape.source))
        through = ending.group_is_through
        await ending.within(
            END_S_MAX,
            "reading by the group",
            lambda: through("members", shape.plain, committed=False),
        )
        await ending.within(
            END_S_MAX, "copying", lambda: through(GROUP, shape.source, committed=True)
        )
        await self.clients.stop_reading(END_S_MAX)
        for topic in shape.topics:
            await ending.within(
                END_S_MAX,
                "the last look",
                lambda topic=topic: read(topic),  # type: ignore[misc]
            )
        self._check()

    def _check_history(self) -> None:
        if found := anomalies(self.work.history) + table_anomalies(self.work.tables):
            shown = "; ".join(map(str, found[:SHOWN_MAX]))
            raise Violation(f"{len(found)} anomalies: {shown}")

    def _summary(self, healed_in_s: float) -> Summary:
        both = self.work.history, self.work.tables
        sendings = [sending for history in both for sending in history.sendings]
        return Summary(
            str(self.shape),
            len(sendings),
            sum(sending.is_promised for sending in sendings),
            sum(len(reader.seen) for history in both for reader in history.readers),
            sum(len(history.transactions) for history in both),
            compacted_count(self.work.tables) if self.shape.table is not None else None,
            self.nemesis.count,
            healed_in_s,
            self.invariants.voter_sets.changes,
            self.work.refusals,
            self.book.throttled,
            self.fleet.metadata_start(),
        )


def play(
    seed: int,
    *,
    nodes: int | None = None,
    synced: bool | None = None,
    compacted: bool | None = None,
    snapshotted: bool | None = None,
    dynamic: bool | None = None,
    hasty: bool | None = None,
    guarded: bool | None = None,
    limited: bool | None = None,
    storm: Storm = ANY_STORM,
    world: World | None = None,
) -> Summary:
    """Play one whole run; raise `Violation` or whatever else went wrong."""
    world = world or World(seed, time_limit_s=3600)

    async def story() -> Summary:
        shape = drawn_shape(world.random, nodes, synced)
        shape = with_compaction(shape, world.chance(compaction.STREAM), compacted)
        shape = with_snapshots(shape, world.chance(snapshots.STREAM), snapshotted)
        shape = with_voters(shape, world.chance(dynamic_quorum.STREAM), dynamic)
        shape = with_hasty_producers(shape, world.chance(hasty_producers.STREAM), hasty)
        shape = with_rights(shape, world.chance(rights.STREAM), guarded)
        shape = with_quotas(shape, world.chance(quotas.STREAM), limited)
        fair = storm is ANY_STORM and world.chance(FAIR_STREAM).random() < FAIR_RATE
        return await ClusterStory(world, shape, FAIR_STORM if fair else storm).run()

    return world.run(story())
