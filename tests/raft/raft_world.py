"""A seeded world of a few nodes: virtual time, bad weather, and then a calm in which all must end.

First comes a time of trouble: crashes, pauses, cuts in one direction, clocks of different speed,
snapshots, voters that come and go. Safety is checked after every step. Then everything heals, and
what is proposed must be committed everywhere in bounded time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace

from raft_checker import BrokenPromise, Checker
from raft_memory_log import Ledger, MemoryLog, first_records
from raft_network import Network
from raft_node import Node

from ottla.broker.raft import ids
from ottla.broker.raft.events import ResignRequested, ShutdownRequested
from ottla.broker.raft.ids import Endpoint, ReplicaKey
from ottla.broker.raft.settings import SUPPORTED_KRAFT_VERSIONS, RaftSettings
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters.voters import Voter, VoterSet
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.uuids import random_uuid

LISTENER = "CONTROLLER"
TROUBLE_MS = 15_000
HEAL_WITHIN_MS = 40_000
STEPS_MAX = 400_000


class World:
    def __init__(self, seed: int, *, outcomes_only: bool = False) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.ledger = Ledger()
        self.checker = Checker(self.ledger, outcomes_only=outcomes_only)
        self.network = Network(self)
        self.disk_ms = self.random.choice((0.5, 5.0, 30.0))
        self.is_calm = False
        self.is_dynamic = self.random.random() < 0.6
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.nodes = self._build(self.random.choice((3, 3, 4, 5)))
        self.by_port = {node.id: node for node in self.nodes}
        self._ports = 100

    def _build(self, count: int) -> list[Node]:
        """With voters that can change, some begin as observers."""
        keys = [ReplicaKey(each, random_uuid(self.random)) for each in range(1, count + 1)]
        addresses = [ids.Node(key.id, "host", key.id) for key in keys]
        voters = [
            Voter(key, (Endpoint(LISTENER, "host", key.id),), SUPPORTED_KRAFT_VERSIONS)
            for key in keys
        ]
        first = VoterSet(voters[: self.random.choice((1, 2, 3, 3)) if self.is_dynamic else 3])
        static = VoterSet.static(LISTENER, addresses[:3])
        pace_ms = self.random.choice((100, 250, 1000))
        settings = RaftSettings(
            election_timeout_ms=pace_ms,
            election_backoff_max_ms=pace_ms,
            fetch_timeout_ms=2 * pace_ms,
            request_timeout_ms=2 * pace_ms,
            fetch_max_wait_ms=pace_ms // 2,
            key=keys[0],
            cluster_id="c",
            listener=LISTENER,
            static_voters=VoterSet() if self.is_dynamic else static,
            bootstrap=tuple(node._replace(id=-1 - node.id) for node in addresses[:3]),
            update_voter_period_ms=3 * pace_ms,
            auto_join=self.random.random() < 0.3,
            fetch_max_bytes=self.random.choice((8, 80, 8000)),
            fetch_snapshot_max_bytes=self.random.choice((16, 160, 8000)),
        )
        if not self.is_dynamic:
            settings = replace(settings, bootstrap=tuple(addresses[:3]))
        bootstrap = first_records(first.to_record()) if self.is_dynamic else []
        return [
            Node(
                self,
                replace(settings, key=voter.key, endpoints=voter.endpoints),
                MemoryLog(self.ledger, bootstrap if voter in list(first) else ()),
            )
            for voter in voters
        ]

    # Time

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def at(self, time_ms: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (time_ms, self._count, action))

    def run_until(self, time_ms: float, is_done: Callable[[], bool] = lambda: False) -> bool:
        """True if it was done before the time was up."""
        while self._queue and self._queue[0][0] <= time_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            if is_done():
                return True
            if self._count > STEPS_MAX:
                raise BrokenPromise(f"{STEPS_MAX} events in {self.now_ms:.0f} ms: somebody spins")
        self.now_ms = time_ms
        return is_done()

    def disk_delay_ms(self) -> float:
        return self.random.expovariate(1 / self.disk_ms)

    # The story

    def run(self) -> None:
        for node in self.nodes:
            node.clock_rate = self.random.uniform(0.95, 1.05)
            self.after(self.random.random() * 500, node.start)
        self._repeat(40, self._propose)
        self._repeat(400, self._trouble)
        self._repeat(700, self._take_snapshot)
        if self.is_dynamic:
            self._repeat(300, self._change_voters)
            self._repeat(1500, self._replace_disk)
        self.run_until(TROUBLE_MS)
        self._heal()

    def _repeat(self, mean_ms: float, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self.is_calm:
                action()
                self._repeat(mean_ms, action)

        self.after(self.random.expovariate(1 / mean_ms), act)

    def _heal(self) -> None:
        """Progress: a record proposed now is committed, and everybody alive learns of it."""
        self.is_calm = True
        self.network.heal()
        for node in self.nodes:
            node.paused_until = 0.0
            if node.core is None:
                node.start()
        deadline_ms = self.now_ms + HEAL_WITHIN_MS
        goal = -1

        def done() -> bool:
            nonlocal goal
            leader = self.leader()
            if goal < 0 and leader is not None and len(self.checker.committed) > 0:
                core = leader.core
                if core is not None and leader.log.end.epoch == core.epoch:
                    goal = len(leader.log.numbers) + 1
                    self.after(0.0, lambda: self._propose_at(leader))
            return goal >= 0 and all(
                node.core and (node.core.high_watermark or 0) >= goal for node in self.nodes
            )

        while not self.run_until(self.now_ms + 500, done):
            if self.now_ms > deadline_ms:
                raise BrokenPromise(f"no progress in {HEAL_WITHIN_MS} ms of calm: {self.states()}")
            if goal >= 0 and goal > len(self.checker.committed):
                goal = -1  # that leader lost: ask the next

    def summary(self) -> str:
        checker = self.checker
        kind = "dynamic" if self.is_dynamic else "static"
        voters = [str(node.core.voters) for node in self.nodes if node.core][:1]
        return (
            f"{len(self.nodes)} nodes, {kind}, {voters}, {len(checker.leaders)} elections, "
            f"{len(checker.committed)} of {len(self.ledger.entries)} records committed, "
            f"{checker.steps} steps, {self.now_ms:.0f} ms"
        )

    def states(self) -> str:
        return "; ".join(
            f"{node.id} {type(node.core.state).__name__} of {node.core.epoch}, leader "
            f"{node.core.leader_id}, {node.core.voters}, log {node.log.start_offset} to "
            f"{node.log.end}, high watermark {node.core.high_watermark}"
            for node in self.nodes
            if node.core
        )

    def leader(self) -> Node | None:
        """Who leads the latest epoch, if it is alive."""
        leading = [node for node in self.nodes if node.core and node.core.is_leader]
        return max(leading, key=lambda node: node.core.epoch if node.core else 0, default=None)

    def _propose_at(self, node: Node) -> None:
        if node.core and node.core.is_leader:
            node.propose(1)

    def _propose(self) -> None:
        for node in self.nodes:
            if node.core and node.core.is_leader and self.now_ms >= node.paused_until:
                node.propose(self.random.randint(1, 3))

    def _trouble(self) -> None:
        kind = self.random.choices(
            (
                self._crash,
                self._cut,
                self._isolate,
                self._pause,
                self._resign,
                self._shut_down,
                self._mend,
            ),
            (25, 15, 10, 10, 5, 5, 60),
        )[0]
        kind()

    def _crash(self) -> None:
        alive = [node for node in self.nodes if node.core]
        if alive:
            node = self.random.choice(alive)
            if self.random.random() < 0.4 and (leader := self.leader()):
                node = leader
            node.crash()
            self.after(self.random.expovariate(1 / 800), lambda: self._restart(node))

    def _restart(self, node: Node) -> None:
        """Sometimes at another address, which its voters have to learn."""
        if node.core is None:
            if self.is_dynamic and self.random.random() < 0.1:
                self._move(node)
            node.start()

    def _move(self, node: Node) -> None:
        self._ports += 1
        self.by_port[self._ports] = node
        endpoints = (Endpoint(LISTENER, "host", self._ports),)
        node.settings = replace(node.settings, endpoints=endpoints)

    def _shut_down(self) -> None:
        node = self.random.choice(self.nodes)
        if node.core:
            node.tell(ShutdownRequested())
            life = node.life

            def stop() -> None:
                if node.life == life:
                    node.crash()
                    self.after(self.random.expovariate(1 / 800), lambda: self._restart(node))

            self.after(self.random.random() * 1_000, stop)

    def _replace_disk(self) -> None:
        """A node that is no voter any more, and that nobody takes for one, comes back empty."""
        node = self.random.choice(self.nodes)
        cores = [other.core for other in self.nodes if other.core]
        is_needed = any(
            core._replica.history.may_stand(node.settings.key)
            or (isinstance(core.state, Leader) and core.state.change)
            for core in cores
        )
        if is_needed or len(cores) < len(self.nodes):
            return
        node.crash()
        node.quorum_state = None
        node.log = MemoryLog(self.ledger)
        key = ReplicaKey(node.id, random_uuid(self.random))
        node.settings = replace(node.settings, key=key)
        self.after(self.random.expovariate(1 / 800), lambda: self._restart(node))

    def _cut(self) -> None:
        one, other = self.random.sample(self.nodes, 2)
        self.network.cut.add((one.id, other.id))

    def _isolate(self) -> None:
        node = self.random.choice(self.nodes)
        ways = [(node.id, other.id) for other in self.nodes if other is not node]
        if self.random.random() < 0.5:
            self.network.cut.update(ways)
        if self.random.random() < 0.7:
            self.network.cut.update((other, one) for one, other in ways)

    def _mend(self) -> None:
        self.network.cut = {each for each in self.network.cut if self.random.random() < 0.2}

    def _pause(self) -> None:
        node = self.random.choice(self.nodes)
        node.paused_until = self.now_ms + self.random.random() * 5_000

    def _resign(self) -> None:
        node = self.leader()
        if node and node.core:
            node.tell(ResignRequested(node.core.epoch))

    def _take_snapshot(self) -> None:
        node = self.random.choice(self.nodes)
        if node.core and (offset := node.core.high_watermark or 0) > node.log.start_offset:
            offset = self.random.randint(node.log.start_offset + 1, offset)
            node.log.take_snapshot(offset, trim=self.random.random() < 0.7)

    def _change_voters(self) -> None:
        leader = self.leader()
        if leader is None or leader.core is None or self.now_ms < leader.paused_until:
            return
        node, voters = self.random.choice(self.nodes), leader.core.voters
        key = node.settings.key
        if not voters.includes(key):
            request = AddRaftVoterRequest(
                cluster_id="c",
                voter_id=key.id,
                voter_directory_id=key.directory_bytes,
                listeners=[Listener(name=n, host=h, port=p) for n, h, p in node.settings.endpoints],
            )
            leader.request(request, 1, lambda response: None)
        elif self.random.random() < (0.0, 0.0, 0.1, 0.4, 0.7, 0.9)[len(voters)]:
            removal = RemoveRaftVoterRequest(
                cluster_id="c", voter_id=key.id, voter_directory_id=key.directory_bytes
            )
            leader.request(removal, 0, lambda response: None)
