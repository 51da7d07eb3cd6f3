"""A node of the simulation: the core, a disk that takes its time, and a clock of its own.

It is the driver in small: whatever it does with effects, a real one has to do as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from raft_memory_log import MemoryLog

from ottla.broker.raft.core import RaftCore
from ottla.broker.raft.effects import Answer, Effects, Request
from ottla.broker.raft.events import (
    Event,
    LogAppended,
    LogFlushed,
    RequestReceived,
    SnapshotStored,
    TimePassed,
)
from ottla.broker.raft.settings import RaftSettings
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from raft_world import World

Reply = Callable[[Message], None]


class Node:
    def __init__(self, world: World, settings: RaftSettings, log: MemoryLog) -> None:
        self.world = world
        self.settings = settings
        self.log = log
        self.quorum_state: bytes | None = None
        """What is on disk."""
        self.core: RaftCore | None = None
        self.life = 0
        """Which of its lives this is: what an earlier one began never ends."""
        self.clock_rate = 1.0
        self._waiting: deque[Request | Answer | bytes] = deque()
        self._writing = False
        self._flushing = False
        self._flush_again = False
        self._wake_id = 0
        self.paused_until = 0.0

    @property
    def id(self) -> int:
        return self.settings.key.id

    def now_ms(self) -> int:
        return int(self.world.now_ms * self.clock_rate) + 7 * self.id

    def start(self) -> None:
        self.life += 1
        self._waiting.clear()
        self._writing = self._flushing = self._flush_again = False
        random = self.world.random
        self.core = RaftCore(self.settings, self.log, self.quorum_state, random, self.now_ms())
        self.world.checker.started(self)
        self.tell(TimePassed())

    def crash(self) -> None:
        self.core = None
        self.life += 1
        self.log.crash(self.world.random)

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do it after a while, unless the node dies before; when paused, after the pause."""
        life = self.life

        def act() -> None:
            if self.life != life or self.core is None:
                return
            if self.world.now_ms < self.paused_until:
                self.world.at(self.paused_until, act)
            else:
                action()

        self.world.after(delay_ms, act)

    def tell(self, event: Event) -> None:
        assert self.core is not None
        self._perform(self.core.handle(event, self.now_ms()))
        self.world.checker.after_step(self)

    def request(self, message: Message, version: int, reply: Reply) -> None:
        """A request has arrived."""
        if isinstance(message, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            reply(ApiVersionsResponse(supported_features=[feature]))
        elif isinstance(message, VoteRequest):
            asked = message.topics[0].partitions[0]

            def vote(response: Message) -> None:
                self.world.checker.answers_vote(self, asked, response)
                reply(response)

            self.tell(RequestReceived(vote, message, version))
        else:
            self.tell(RequestReceived(reply, message, version))

    def propose(self, count: int) -> None:
        assert self.core is not None
        assert self.core.is_leader
        epoch = self.core.epoch
        self.log.append([self.log.ledger.write(epoch) for _ in range(count)])
        self.tell(LogAppended())

    def _perform(self, effects: Effects) -> None:
        if effects.persist is not None:
            self._waiting.append(effects.persist)
        self._waiting.extend(effects.requests)
        self._waiting.extend(effects.answers)
        self._drain()
        if effects.flush:
            self._flush()
        if effects.store_snapshot is not None:
            snapshot, life_log = effects.store_snapshot, self.log

            def stored() -> None:
                life_log.store_snapshot(snapshot)
                self.tell(SnapshotStored(snapshot))

            self.later(self.world.disk_delay_ms(), stored)
        if effects.wake_at_ms is not None:
            self._wake_at(effects.wake_at_ms)

    def _drain(self) -> None:
        """Send what is not behind something that has to be on disk first."""
        while self._waiting and not self._writing:
            first = self._waiting.popleft()
            if isinstance(first, bytes):
                self._write(first)
            elif isinstance(first, Request):
                self.world.checker.sends(self, first.message)
                self.world.network.request(self, first)
            else:
                self.world.checker.sends(self, first.message)
                first.token(first.message)

    def _write(self, quorum_state: bytes) -> None:
        def written() -> None:
            self.quorum_state = quorum_state
            self._writing = False
            self._drain()

        self._writing = True
        self.later(self.world.disk_delay_ms(), written)

    def _flush(self) -> None:
        if self._flushing:
            self._flush_again = True
            return

        def flushed() -> None:
            self.log.finish_flush()
            self._flushing = False
            if self._flush_again:
                self._flush_again = False
                self._flush()
            self.tell(LogFlushed())

        self._flushing = True
        self.log.begin_flush()
        self.later(self.world.disk_delay_ms(), flushed)

    def _wake_at(self, at_ms: int) -> None:
        self._wake_id += 1
        wake_id = self._wake_id

        def wake() -> None:
            if wake_id == self._wake_id:
                self.tell(TimePassed())

        self.later(max(0.0, (at_ms - self.now_ms()) / self.clock_rate) + 1, wake)
