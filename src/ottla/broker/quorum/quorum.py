"""The driver of the quorum's core: carries out its effects, and passes events to it.

The outbox keeps what it sends in order. The log is flushed independently, and only flushed records
are ever acknowledged: the core ensures that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.broker.peers.peers import Peers
from ottla.broker.quorum import state_file
from ottla.broker.quorum.committed_mark import CommittedMark
from ottla.broker.quorum.log import QuorumLog
from ottla.broker.quorum.outbox import Committed, Outbox
from ottla.broker.quorum.requests import Requests
from ottla.broker.raft import wire
from ottla.broker.raft.core import RaftCore
from ottla.broker.raft.effects import Answer, Effects, LeaderAndEpoch, LostLeader, Request
from ottla.broker.raft.errors import RaftFault
from ottla.broker.raft.events import (
    Event,
    LogAppended,
    LogFlushed,
    RequestReceived,
    ResignRequested,
    ShutdownRequested,
    SnapshotRefused,
    SnapshotStored,
    Stalled,
    TimePassed,
)
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.resigned import Resigned
from ottla.broker.storage.errors import LogDirFailure
from ottla.buffers import Buffer
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.schema import Message
from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.quorum")

HAND_OVER_MS: Final = 1_000
"""How long a leader that stops waits until the others know."""


STALL_MS: Final = 100
"""A timer that is later than this shows that the node was stalled: a busy machine, a slow disk."""


class Quorum:
    """A replica of the metadata log. Set the callbacks, then call `start`."""

    def __init__(
        self,
        runtime: Runtime,
        settings: RaftSettings,
        quorum_log: QuorumLog,
        core: RaftCore,
        peers: Peers | None,
    ) -> None:
        self.settings = settings
        self.log = quorum_log
        self.core = core
        self.leader = LeaderAndEpoch(-1, core.epoch)
        self.high_watermark = core.high_watermark or 0
        self.on_commit: Callable[[int], object] = _ignore
        """Called with the high watermark whenever it has advanced."""
        self.on_leader: Callable[[LeaderAndEpoch], object] = _ignore
        """Called at once with the new leader, before anything of that epoch is committed."""
        self.on_lost_leader: Callable[[LostLeader], object] = _ignore
        """Called as soon as a leader is found to be silent."""
        self.on_heard: Callable[[int], object] = _ignore
        """Called with the leader's high watermark after every answer to a fetch. This node's own
        high watermark reaches it when the records have arrived."""
        self.on_failure: Callable[[Exception], object] = _ignore
        """Called once with the reason why the log can no longer be used."""
        self._runtime = runtime
        self._events: deque[Event] = deque()
        self._busy = False
        self._stopped = False
        self._outbox = Outbox(
            runtime, quorum_log.directory, self._release, self.fail, self._disk_is_done
        )
        self._requests = Requests(peers, settings, self.tell)
        self._flushing = False
        self._flush_again = False
        self._timer: Timer | None = None
        self._wake_at_ms: int | None = None
        self._replies: dict[asyncio.Future[Any], None] = {}
        self._handed_over: asyncio.Future[None] | None = None
        self._mark = CommittedMark(runtime, quorum_log.directory)
        self._quiet: asyncio.Future[None] | None = None
        """Awaited by `close`: no thread works for this quorum any more."""

    @classmethod
    def load(
        cls,
        runtime: Runtime,
        settings: RaftSettings,
        quorum_log: QuorumLog,
        peers: Peers | None,
    ) -> Quorum:
        """Read the state of the last run. Meant for a thread: it reads the whole log."""
        state = state_file.read(runtime.disk, quorum_log.directory)
        now_ms = _now_ms(runtime)
        core = RaftCore(settings, quorum_log, state, runtime.random, now_ms)
        return cls(runtime, settings, quorum_log, core, peers)

    # State

    @property
    def is_alone(self) -> bool:
        """True if this node is the only voter: it need not wait for others."""
        return self.core.voters.is_only(self.settings.key)

    @property
    def epoch(self) -> int:
        return self.core.epoch

    @property
    def is_leader(self) -> bool:
        return self.core.is_leader and not self._stopped

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return self.core.voters.ids

    @property
    def kraft_version(self) -> int:
        """0: the voters are fixed; 1: they are in the log and can change."""
        return self.core.kraft_version_at(self.log.end.offset)

    def leader_address(self) -> tuple[str, int] | None:
        if self.leader.leader_id < 0:
            return None
        for listener, host, port in self.core.state.leader_endpoints:
            if listener == self.settings.listener:
                return host, port
        return None

    # Lifecycle

    def start(self) -> None:
        self.tell(TimePassed())

    def handle(self, message: Message, version: int) -> asyncio.Future[Any]:
        """Serve a request of the quorum's APIs."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._stopped:
            reply.set_exception(_closed())
            return reply
        self._replies[reply] = None
        reply.add_done_callback(lambda done: self._replies.pop(done, None))
        wall_ms = self._runtime.clock.wall_ms()
        self.tell(RequestReceived(reply, message, version, wall_ms))
        return reply

    def append(self, batches: Sequence[Buffer]) -> int:
        """Append as the leader; return the offset of the last record. Only while `is_leader`."""
        assert self.is_leader, "only a leader appends"
        last_offset = -1
        try:
            for batch in batches:
                last_offset = self.log.append(batch, self.core.epoch)
        except (OSError, LogDirFailure) as error:
            self.fail(error)
            raise _closed(f"the metadata log failed: {error}") from error
        self.tell(LogAppended())
        return last_offset

    def resign(self) -> None:
        """Stop leading, if this node leads; another node, or this one again, is elected."""
        self.tell(ResignRequested(self.core.epoch))

    async def close(self, *, clean: bool = True) -> None:
        """Hand over leadership if another node can take it, then close the log."""
        if not self._stopped:
            await self._hand_over()
        self._stop()
        if self._outbox.is_persisting or self._flushing:
            self._quiet = asyncio.get_running_loop().create_future()
            await self._quiet
        await self._runtime.in_thread(lambda: self.log.storage.close(clean=clean))
        if clean:
            await self._mark.close(self._safe_offset)

    async def _hand_over(self) -> None:
        self._handed_over = asyncio.get_running_loop().create_future()
        self._requests.unreachable.clear()
        self.tell(ShutdownRequested())
        await asyncio.wait([self._handed_over], timeout=HAND_OVER_MS / 1000)

    def _stop(self) -> None:
        self._stopped = True
        self._outbox.close()
        if self._timer is not None:
            self._timer.cancel()
        for reply in list(self._replies):
            if not reply.done():
                reply.set_exception(_closed())

    def fail(self, error: Exception) -> None:
        """Stop the node, because continuing could lose or invent records."""
        if self._stopped:
            return
        log.critical("the quorum's log in %s failed: %s", self.log.directory, error)
        self._stop()
        self.on_failure(error)

    # Events in, effects out

    def tell(self, event: Event) -> None:
        """Pass an event to the core. Callbacks may pass in more meanwhile: one at a time, in
        order."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._events and not self._stopped:
                self._step(self._events.popleft())
        finally:
            self._busy = False

    def _step(self, event: Event) -> None:
        if self._wake_at_ms is not None:
            late_ms = _now_ms(self._runtime) - self._wake_at_ms
            self._wake_at_ms = None
            if late_ms > STALL_MS:
                log.info("this node was held up for %d ms", late_ms)
                self._step(Stalled(late_ms))
        try:
            effects = self.core.handle(event, _now_ms(self._runtime))
        except (RaftFault, OSError, KafkaError) as error:
            self.fail(error)
        else:
            self._perform(effects)

    def _perform(self, effects: Effects) -> None:
        if effects.lost_leader is not None:
            self.on_lost_leader(effects.lost_leader)
        if effects.leader is not None:
            self.leader = effects.leader
            self.on_leader(effects.leader)
        self._outbox.put(effects)
        if effects.flush:
            self._flush()
        if effects.store_snapshot is not None:
            self._runtime.spawn(self._store(effects.store_snapshot), name="store-snapshot")
        self._wake_at(effects.wake_at_ms)
        self._outbox.drain()
        if effects.is_shut_down or self._successors_know():
            _resolve(self._handed_over)

    def _successors_know(self) -> bool:
        state = self.core.state
        return isinstance(state, Resigned) and all(
            key.id in state.told or key.id in self._requests.unreachable for key in state.successors
        )

    def _wake_at(self, at_ms: int | None) -> None:
        self._wake_at_ms = at_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None and not self._stopped:
            delay_s = max(0.0, at_ms / 1000 - self._runtime.clock.now())
            self._timer = self._runtime.call_later(delay_s + 0.0005, self.tell, TimePassed())

    def _release(self, outgoing: Request | Answer | Committed) -> None:
        match outgoing:
            case Request():
                self._requests.send(outgoing, self._heard)
            case Answer():
                if not outgoing.token.done():
                    outgoing.token.set_result(outgoing.message)
            case Committed():
                self.high_watermark = outgoing.high_watermark
                self._mark.advance(self._safe_offset)
                self.on_commit(outgoing.high_watermark)

    @property
    def _safe_offset(self) -> int:
        """The offset up to which everything is committed and on this node's disk."""
        return min(self.high_watermark, self.log.flushed_offset)

    def _heard(self, response: Message) -> None:
        if not isinstance(response, FetchResponse):
            return
        partition = wire.only_partition(response.responses)
        if partition is None or partition.error_code or partition.high_watermark < 0:
            return
        if partition.current_leader.leader_epoch == self.core.epoch:
            self.on_heard(partition.high_watermark)

    # Disk

    def _flush(self) -> None:
        """Flush the log. Requests that come during a flush are covered by one more flush."""
        if self._flushing:
            self._flush_again = True
        else:
            self._flushing = True
            self._runtime.spawn(self._flush_all(), name="quorum-flush")

    async def _flush_all(self) -> None:
        try:
            self._flush_again = True
            while self._flush_again and not self._stopped:
                self._flush_again = False
                await self._runtime.in_thread(self.log.flush)
                self.tell(LogFlushed())
        except (OSError, KafkaError) as error:
            self.fail(error)
        finally:
            self._flushing = False
            self._disk_is_done()

    def _disk_is_done(self) -> None:
        if not self._outbox.is_persisting and not self._flushing:
            _resolve(self._quiet)

    async def _store(self, snapshot: OffsetAndEpoch) -> None:
        try:
            sound = await self._runtime.in_thread(self.log.finish_snapshot, snapshot)
        except OSError as error:
            self.fail(error)
            return
        if sound:
            self.log.add_snapshot(snapshot)
            self.tell(SnapshotStored(snapshot))
        else:
            log.warning("the snapshot %s that was fetched is damaged", snapshot)
            self.tell(SnapshotRefused(snapshot))


def _now_ms(runtime: Runtime) -> int:
    return int(runtime.clock.now() * 1000)


def _closed(reason: str = "this node is closing its metadata log") -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, reason)


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _ignore(_: object) -> None:
    return
