"""The driver of the quorum's core: does what its effects say, and tells it what happened.

Its one duty of order: what stands in `persist` is on disk before any request or answer of the same
effects or of later ones leaves, and before anybody hears what is committed. So all of these go
through one queue, which stands still while the file is written. The log is flushed beside it, and
only what is flushed is ever acknowledged: the core sees to that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.buffers import Buffer
from ottla.peers.peers import PeerError, Peers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.schema import Message
from ottla.quorum import state_file
from ottla.quorum.log import QuorumLog
from ottla.raft import wire
from ottla.raft.core import RaftCore
from ottla.raft.effects import Answer, Effects, LeaderAndEpoch, Request
from ottla.raft.errors import RaftFault
from ottla.raft.events import (
    Event,
    LogAppended,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotRefused,
    SnapshotStored,
    TimePassed,
)
from ottla.raft.ids import Node, OffsetAndEpoch
from ottla.raft.settings import RaftSettings
from ottla.raft.states.resigned import Resigned
from ottla.runtime.runtime import Runtime, Timer
from ottla.storage.errors import LogDirFailure

log = logging.getLogger("ottla.quorum")

LANE_OF_FETCHES: Final = "raft"
LANE_OF_VOTES: Final = "raft-votes"
"""Votes must not wait behind a fetch that waits for news of a leader that may be gone."""
HAND_OVER_MS: Final = 1_000
"""How long a leader that stops waits for the others to hear of it."""


class _Committed(NamedTuple):
    high_watermark: int


class Quorum:
    """One replica of the metadata log among others. Set the callbacks, then `start`."""

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
        """Told the high watermark whenever it has moved."""
        self.on_leader: Callable[[LeaderAndEpoch], object] = _ignore
        """Told at once who leads now, before anything of that epoch is committed."""
        self.on_heard: Callable[[int], object] = _ignore
        """Told the leader's own high watermark with every answer to a fetch: how far there is to
        go. This node's follows as it gets the records."""
        self.on_failure: Callable[[Exception], object] = _ignore
        """Told once why the log can be used no more."""
        self._runtime = runtime
        self._peers = peers
        self._events: deque[Event] = deque()
        self._busy = False
        self._stopped = False
        self._outbox: deque[bytes | Request | Answer | _Committed] = deque()
        self._draining = False
        self._persisting = False
        self._flushing = False
        self._flush_again = False
        self._timer: Timer | None = None
        self._replies: dict[asyncio.Future[Any], None] = {}
        self._handed_over: asyncio.Future[None] | None = None
        self._foreign: set[tuple[str, int]] = set()
        """Controllers that were said to be of another cluster: once is enough."""
        self._quiet: asyncio.Future[None] | None = None
        """Waited for by `close`: no thread works for this quorum any more."""

    @classmethod
    def load(
        cls,
        runtime: Runtime,
        settings: RaftSettings,
        quorum_log: QuorumLog,
        peers: Peers | None,
    ) -> Quorum:
        """Read what the last run left. Meant for a thread: it looks through the whole log."""
        state = state_file.read(runtime.disk, quorum_log.directory)
        now_ms = _now_ms(runtime)
        core = RaftCore(settings, quorum_log, state, runtime.random, now_ms)
        return cls(runtime, settings, quorum_log, core, peers)

    # What others may ask

    @property
    def is_alone(self) -> bool:
        """This node is the only voter: it need not wait for anybody."""
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

    # Life

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
        """Write as the leader; the offset of the last record. Only while `is_leader`."""
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
        """Give up leading, if this node leads; another one, or this one again, is elected."""
        self.tell(ResignRequested(self.core.epoch))

    async def close(self, *, clean: bool = True) -> None:
        """Hand leadership over if there is somebody to take it, then close the log."""
        if not self._stopped:
            await self._hand_over()
        self._stop()
        if self._persisting or self._flushing:
            self._quiet = asyncio.get_running_loop().create_future()
            await self._quiet
        await self._runtime.in_thread(lambda: self.log.storage.close(clean=clean))

    async def _hand_over(self) -> None:
        self._handed_over = asyncio.get_running_loop().create_future()
        self.tell(ShutdownRequested())
        await asyncio.wait([self._handed_over], timeout=HAND_OVER_MS / 1000)

    def _stop(self) -> None:
        self._stopped = True
        self._outbox.clear()
        if self._timer is not None:
            self._timer.cancel()
        for reply in list(self._replies):
            if not reply.done():
                reply.set_exception(_closed())

    def fail(self, error: Exception) -> None:
        """Going on could lose or invent records: the node has to stop."""
        if self._stopped:
            return
        log.critical("the quorum's log in %s failed: %s", self.log.directory, error)
        self._stop()
        self.on_failure(error)

    # Events in, effects out

    def tell(self, event: Event) -> None:
        """Callbacks may tell more while an event is worked on: one at a time, in order."""
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
        try:
            effects = self.core.handle(event, _now_ms(self._runtime))
        except (RaftFault, OSError, KafkaError) as error:
            self.fail(error)
        else:
            self._perform(effects)

    def _perform(self, effects: Effects) -> None:
        if effects.leader is not None:
            self.leader = effects.leader
            self.on_leader(effects.leader)
        if effects.persist is not None:
            self._outbox.append(effects.persist)
        self._outbox.extend(effects.requests)
        self._outbox.extend(effects.answers)
        if effects.high_watermark is not None:
            self._outbox.append(_Committed(effects.high_watermark))
        if effects.flush:
            self._flush()
        if effects.store_snapshot is not None:
            self._runtime.spawn(self._store(effects.store_snapshot), name="store-snapshot")
        self._wake_at(effects.wake_at_ms)
        self._drain()
        if effects.is_shut_down or self._all_are_told():
            _resolve(self._handed_over)

    def _all_are_told(self) -> bool:
        state = self.core.state
        return isinstance(state, Resigned) and all(key.id in state.told for key in state.successors)

    def _wake_at(self, at_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None and not self._stopped:
            delay_s = max(0.0, at_ms / 1000 - self._runtime.clock.now())
            self._timer = self._runtime.call_later(delay_s + 0.0005, self.tell, TimePassed())

    # What leaves, in order

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._outbox and not self._persisting and not self._stopped:
                self._let_go(self._outbox.popleft())
        finally:
            self._draining = False

    def _let_go(self, first: bytes | Request | Answer | _Committed) -> None:
        match first:
            case bytes():
                self._persisting = True
                self._runtime.spawn(self._persist(first), name="quorum-state")
            case Request():
                self._send(first)
            case Answer():
                if not first.token.done():
                    first.token.set_result(first.message)
            case _Committed():
                self.high_watermark = first.high_watermark
                self.on_commit(first.high_watermark)

    async def _persist(self, content: bytes) -> None:
        disk, directory = self._runtime.disk, self.log.directory
        try:
            await self._runtime.in_thread(state_file.write, disk, directory, content)
        except OSError as error:
            self.fail(error)
        finally:
            self._persisting = False
            self._disk_is_done()
        self._drain()

    def _send(self, request: Request) -> None:
        correlation_id, node, message = request
        if self._peers is None:
            self.tell(RequestFailed(correlation_id))
            return
        is_fetch = isinstance(message, FetchRequest | FetchSnapshotRequest)
        reply = self._peers.post(
            node.host,
            node.port,
            message,
            timeout_ms=self.settings.request_timeout_ms,
            lane=LANE_OF_FETCHES if is_fetch else LANE_OF_VOTES,
        )
        reply.add_done_callback(partial(self._answered, correlation_id, node))

    def _answered(self, correlation_id: int, node: Node, reply: asyncio.Future[Any]) -> None:
        if reply.cancelled():
            self.tell(RequestFailed(correlation_id))
        elif (error := reply.exception()) is not None:
            code = error.code if isinstance(error, PeerError) else ErrorCode.NETWORK_EXCEPTION
            self.tell(RequestFailed(correlation_id, code))
        else:
            response = reply.result()
            if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._is_foreign(node)
            self.tell(ResponseReceived(correlation_id, response))
            if isinstance(response, FetchResponse):
                self._heard(response)

    def _is_foreign(self, node: Node) -> None:
        if (node.host, node.port) not in self._foreign:
            self._foreign.add((node.host, node.port))
            log.error(
                "the controller at %s:%d belongs to another cluster than this node, whose cluster "
                "id is %s: format this node with the id that `ottla storage info` shows there, or "
                "correct controller.quorum.voters or controller.quorum.bootstrap.servers",
                node.host,
                node.port,
                self.settings.cluster_id,
            )

    def _heard(self, response: FetchResponse) -> None:
        partition = wire.only_partition(response.responses)
        if partition is None or partition.error_code or partition.high_watermark < 0:
            return
        if partition.current_leader.leader_epoch == self.core.epoch:
            self.on_heard(partition.high_watermark)

    # Disk

    def _flush(self) -> None:
        """While one flush runs, one more covers all that ask for one."""
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
        if not self._persisting and not self._flushing:
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
