"""Copies records from one leader: one request at a time, for all partitions of one lane.

A fetch waits at the leader until there are records; they are appended, the high watermark is taken
over, and the next fetch is sent. Partitions with errors are left out for a while, longer each time,
and do not delay the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.peers.peers import PeerError, Peers
from ottla.broker.replication import following
from ottla.broker.replication.fetching.fetch_messages import LeaderEnds, ends_request, fetch_request
from ottla.broker.replication.fetching.fetch_session import FollowerSession, Key, Position
from ottla.broker.replication.fetching.fetch_settings import FetchSettings
from ottla.broker.replication.follower_state import UNDEFINED, FetchState
from ottla.broker.storage.errors import LogDirFailure, UnexpectedOffset
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import PartitionData
from ottla.runtime.disk import FileSlice

if TYPE_CHECKING:
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.throttle import ReplicationThrottle
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")

THROTTLE_LOOK_S: Final = 0.25
"""How often a throttled partition checks whether it may continue: windows pass, and the limit may
be lifted."""
PAUSE_S_MIN: Final = 0.01
"""The first pause after an error: most errors end as soon as the leader has heard of an
election."""


class Followed:
    """A partition with its fetcher's state."""

    __slots__ = ("failures", "partition", "state")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.state = FetchState(partition.topic_id, partition.index, partition.leader_epoch)
        self.failures = 0

    @property
    def stands(self) -> bool:
        """True if it still follows the leader that this was made for."""
        partition = self.partition
        return (
            not partition.is_leader
            and partition.error is None
            and partition.leader_epoch == self.state.leader_epoch
        )


class Fetcher:
    def __init__(
        self,
        runtime: Runtime,
        view: ClusterView,
        peers: Peers,
        leader_id: int,
        lane: int,
        settings: Callable[[], FetchSettings],
        throttle: ReplicationThrottle,
        dir_failed: Callable[[KafkaError], object],
    ) -> None:
        self._runtime = runtime
        self._view = view
        self._peers = peers
        self._leader_id = leader_id
        self._lane = f"fetch-{lane}"
        self._settings = settings
        self._throttle = throttle
        self._dir_failed = dir_failed
        self._followed: dict[Key, Followed] = {}
        self._paused: dict[Key, float] = {}
        """Partition -> the time until which it is left out."""
        self._throttled: set[Key] = set()
        """The paused partitions that wait for the throttle."""
        self._session = FollowerSession()
        self._failures = 0
        self._closed = False
        self._idle: asyncio.Future[None] | None = None
        self._running = False

    # --- followed partitions --------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Start to follow a partition, from the end of its log."""
        followed = Followed(partition)
        key = followed.state.key
        self._session.remove(key)
        self._paused.pop(key, None)
        self._throttled.discard(key)
        self._followed[key] = followed
        self._ask_for(followed)
        if self._running:
            self._wake()
        else:
            self._running = True
            self._runtime.spawn(self._run(), name=f"{self._lane} of {self._leader_id}")

    def leave(self, topic_id: bytes, index: int) -> None:
        key = (topic_id, index)
        self._followed.pop(key, None)
        self._paused.pop(key, None)
        self._throttled.discard(key)
        self._session.remove(key)

    def close(self) -> None:
        self._closed = True
        self._followed.clear()
        self._wake()

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _ask_for(self, followed: Followed) -> None:
        """Name it in the next request, with the present end of its log."""
        log_ = followed.partition.usable_log()
        state = followed.state
        state.fetching_at = UNDEFINED
        position = Position(
            log_.end_offset, log_.latest_epoch, state.leader_epoch, log_.log_start_offset
        )
        if self._session.position(state.key) == position:
            self._session.touch(state.key)
        else:
            self._session.put(state.key, position)

    def _pause(self, followed: Followed, seconds: float) -> None:
        key = followed.state.key
        if self._followed.get(key) is followed:
            self._session.remove(key)
            self._paused[key] = self._runtime.clock.now() + seconds

    def _fail(self, followed: Followed) -> None:
        """Leave the partition out for a while."""
        self._pause(followed, self._pause_s(followed.failures))
        followed.failures += 1

    def _pause_s(self, failures: int) -> float:
        return min(self._settings().backoff_s, PAUSE_S_MIN * (1 << min(failures, 20)))

    def _resume(self) -> float | None:
        """Resume the partitions whose pause is over; return the seconds until the next one."""
        if not self._paused:
            return None
        now = self._runtime.clock.now()
        for key in [key for key, until in self._paused.items() if until <= now]:
            if key in self._throttled and (pause_s := self._throttle.pause_s()) > 0:
                self._paused[key] = now + min(pause_s, THROTTLE_LOOK_S)
                continue
            del self._paused[key]
            self._throttled.discard(key)
            followed = self._followed[key]
            if followed.stands:
                self._ask_for(followed)
            else:
                del self._followed[key]
        return min(self._paused.values()) - now if self._paused else None

    # --- the loop -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._closed:
                try:
                    await self._turn()
                except Exception as error:  # one unexpected response must not end replication
                    log.error("a fetch failed", leader=self._leader_id, exc_info=error)
                    self._session.reset()
                    await self._rest(self._settings().backoff_s)
        finally:
            self._running = False

    async def _turn(self) -> None:
        next_s = self._resume()
        if len(self._session):
            await self._fetch(next_s)
        else:
            await self._rest(next_s)

    async def _rest(self, seconds: float | None) -> None:
        """Wait until something is to be followed, or `seconds` have passed."""
        self._idle = asyncio.get_running_loop().create_future()
        timer = None
        if seconds is not None:
            timer = self._runtime.call_later(max(0.0, seconds), self._wake)
        await self._idle
        self._idle = None
        if timer is not None:
            timer.cancel()

    async def _fetch(self, next_s: float | None) -> None:
        settings = self._settings()
        wait_ms = settings.wait_max_ms
        if next_s is not None:
            wait_ms = min(wait_ms, max(1, int(next_s * 1000)))
        request = self._session.request()
        for key, position in request.named.items():
            self._followed[key].state.fetching_at = position.offset
        message = fetch_request(
            request, settings, wait_ms, self._view.node_id, self._view.broker_epoch()
        )
        try:
            response = await self._ask(message)
        except PeerError as error:
            await self._leader_failed(error)
            return
        if self._closed:
            return
        self._failures = 0
        if self._session.answered(response.error_code, response.session_id):
            await self._take(response)

    async def _ask(self, message: Any) -> Any:
        endpoint = self._view.endpoint(self._leader_id, self._settings().listener)
        if endpoint is None:
            raise PeerError(ErrorCode.NETWORK_EXCEPTION, f"no address of {self._leader_id} known")
        return await self._peers.post(
            endpoint.host,
            endpoint.port,
            message,
            timeout_ms=self._settings().timeout_ms,
            lane=self._lane,
        )

    async def _leader_failed(self, error: PeerError) -> None:
        self._session.reset()
        if not self._failures and not self._closed:
            log.info("a leader does not answer", leader=self._leader_id, reason=str(error))
        pause_s = self._pause_s(self._failures)
        self._failures += 1
        if not self._closed:
            await self._rest(pause_s)

    # --- answers --------------------------------------------------------------------------------

    async def _take(self, response: Any) -> None:
        unflushed: list[Followed] = []
        out_of_range: list[Followed] = []
        for topic in response.responses:
            for answer in topic.partitions:
                followed = self._followed.get((topic.topic_id, answer.partition_index))
                if followed is None or not self._is_expected(followed):
                    continue
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(followed)
                elif self._take_answer(followed, answer) and following.must_flush(
                    followed.partition
                ):
                    unflushed.append(followed)
        if unflushed:
            await asyncio.gather(*(self._flush(followed) for followed in unflushed))
        for followed in out_of_range:
            await self._find_way_on(followed)

    def _is_expected(self, followed: Followed) -> bool:
        """True if this was requested, still stands, and continues at the end of the log."""
        log_ = followed.partition.log
        return (
            followed.stands
            and log_ is not None
            and followed.state.fetching_at == log_.end_offset
            and followed.state.key not in self._paused
        )

    def _take_answer(self, followed: Followed, answer: PartitionData) -> bool:
        """Process an answer; True if records were appended or the log was truncated."""
        if answer.error_code:
            code = ErrorCode.of(answer.error_code)
            log.debug(
                "a leader refused a fetch of a partition",
                partition=str(followed.partition),
                error=code.name,
            )
            self._fail(followed)
            return False
        try:
            if answer.diverging_epoch.end_offset >= 0:
                self._part(followed, answer)
                return True
            return self._append(followed, answer)
        except LogDirFailure as error:
            self._dir_failed(error)
        except (KafkaError, UnexpectedOffset) as error:
            log.error(
                "cannot append what a leader sent",
                partition=str(followed.partition),
                leader=self._leader_id,
                error=str(error),
            )
            self._fail(followed)
        return False

    def _part(self, followed: Followed, answer: PartitionData) -> None:
        partition = followed.partition
        before = partition.usable_log().end_offset
        epoch, end_offset = answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset
        now = following.truncate_by_epoch(partition, epoch, end_offset)
        if now < before:
            log.info(
                "truncated records that the leader does not have",
                partition=str(partition),
                leader=self._leader_id,
                epoch=epoch,
                before=before,
                now=now,
            )
        self._ask_for(followed)

    def _append(self, followed: Followed, answer: PartitionData) -> bool:
        partition, state = followed.partition, followed.state
        gained = 0
        if answer.records:
            assert not isinstance(answer.records, FileSlice)
            gained = following.append_fetched(
                partition, answer.records, state.leader_epoch, self._runtime.clock.wall_ms()
            )
        log_ = partition.usable_log()
        log_start = log_.log_start_offset
        following.take_marks(partition, answer.high_watermark, answer.log_start_offset)
        state.lag = max(0, answer.high_watermark - log_.end_offset)
        followed.failures = 0
        if gained or answer.records or log_.log_start_offset != log_start:
            self._ask_for(followed)
        if gained and self._throttle.covers(partition.topic, partition.index):
            self._throttle.record(gained)
            # A response that is not full had all there was (half full: another whole batch may not
            # have fitted). Such a follower may join the ISR with its next fetch, so it is not
            # delayed.
            settings = self._settings()
            room = min(settings.partition_bytes_max, settings.response_bytes_max)
            full = 2 * gained >= room
            pause_s = self._throttle.pause_s()
            if pause_s > 0 and full and not state.is_in_sync:
                self._throttled.add(state.key)
                self._pause(followed, min(pause_s, THROTTLE_LOOK_S))
        return gained > 0

    async def _flush(self, followed: Followed) -> None:
        """Flush the log, before the leader is told that the records are here."""
        try:
            await self._runtime.in_thread(followed.partition.usable_log().flush)
            following.flushed(followed.partition)
        except KafkaError as error:
            self._dir_failed(error)

    async def _find_way_on(self, followed: Followed) -> None:
        """Ask for the ends of the leader's log, which begins after the end of this one, or ends
        before it."""
        partition = followed.partition
        try:
            ends = LeaderEnds.read(
                await self._ask(ends_request(partition, self._view.node_id, latest=False)),
                await self._ask(ends_request(partition, self._view.node_id, latest=True)),
            )
            if not followed.stands or self._followed.get(followed.state.key) is not followed:
                return
            before = partition.usable_log().end_offset
            now = following.follow_from(partition, ends.start_offset, ends.end_offset)
        except LogDirFailure as error:
            self._dir_failed(error)
        except (KafkaError, PeerError) as error:
            log.info(
                "cannot find the offset to fetch from", partition=str(partition), error=str(error)
            )
            self._fail(followed)
        else:
            log.warning(
                "the leader's log does not hold the end offset of this log",
                partition=str(partition),
                before=before,
                now=now,
            )
            if now == before:
                self._fail(followed)
            else:
                self._ask_for(followed)
