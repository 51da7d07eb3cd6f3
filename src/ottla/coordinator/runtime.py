"""Runs the shards of one internal topic: loads them, has their steps written, answers, wakes them.

    request -> step(shard, now, outbox) -> records appended as one batch -> timers set
            -> replies sent once the high watermark has passed everything appended so far

A step and its append happen in one go on the loop, so that what a shard believes and what its log
says never differ. If the append fails, the shard is dropped and made anew from the log.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from ottla.coordinator.hashing import partition_of
from ottla.coordinator.loading import decode_slice, replay
from ottla.coordinator.outbox import Now, Outbox
from ottla.coordinator.shard import S, Step, Token
from ottla.coordinator.timers import TimerQueue
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.protocol.schema import Message, Struct
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, read_header
from ottla.records.record import Record

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.coordinator")

LOAD_BYTES: Final = 64 * 1024
"""Read and decoded at once, beside the loop."""
LOAD_EVENTS_PER_TURN: Final = 200
RELOAD_DELAY_S: Final = 0.05
RELOAD_AGAIN_DELAY_S: Final = 5.0
"""So long one waits whose last reload is not long ago: what does not help is not done in a rush."""
TIMERS_PER_TURN: Final = 64


class _Waiting(NamedTuple):
    """A reply that waits for the high watermark."""

    needed: int
    deadline_ms: int
    token: Token
    response: Message | Struct


class Marker(NamedTuple):
    """The end of a transaction, to be written into a shard's partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class HostedShard(Generic[S]):
    """One partition that this broker leads, with its shard once that is loaded."""

    def __init__(self, owner: CoordinatorRuntime[S], partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.shard: S | None = None
        self._owner = owner
        self._runtime = owner.runtime
        self._timers = TimerQueue()
        self._wake_up: Timer | None = None
        self._wake_up_ms = 0
        self._appended = 0
        self._waiting: deque[_Waiting] = deque()
        self._reply_timer: Timer | None = None
        self._open: dict[Token, None] = {}
        self._dropped = False
        partition.waiters[self] = None

    # --- steps ----------------------------------------------------------------------------------

    def request(self, token: Token, step: Step[S]) -> None:
        """Run a step for the request behind `token`, which is answered now, later or with an
        error, but always."""
        try:
            self.run(step)
        except KafkaError as error:
            token.fail(error)
            return
        if not token.resolved:
            if self._dropped:
                token.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
            else:
                self._open[token] = None

    def run(self, step: Step[S]) -> None:
        """Run a step and carry out what it asks for; raises `KafkaError` if it refused."""
        shard = self.shard
        if shard is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        outbox = Outbox()
        try:
            step(shard, self._owner.now(), outbox)
        except KafkaError:
            raise
        except Exception as error:
            # Half a step may have been taken: what the log says is the truth.
            log.error("a coordinator's step failed", partition=str(self.partition), exc_info=error)
            self._owner.reload(self, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self._carry_out(shard, outbox)

    def end_transaction(self, marker: Marker, token: Token, response: Message) -> None:
        """Append a transaction marker, tell the shard, answer `response` when it is committed."""
        shard = self.shard
        if shard is None:
            token.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        now = self._owner.now()
        batch = end_txn_marker(
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now.wall_ms,
        )
        try:
            self._append(batch, now.wall_ms)
        except KafkaError as error:
            # One that its producer's epoch forbids is refused; the shard is as it was.
            if not self._log_is_sound:
                self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
            token.fail(error)
            return
        shard.transaction_ended(marker.producer_id, committed=marker.committed)
        self._reply([(token, response)])
        if not token.resolved:
            self._open[token] = None

    def _carry_out(self, shard: S, outbox: Outbox) -> None:
        if outbox.records:
            try:
                self._append(self._batch(shard, outbox), self._owner.runtime.clock.wall_ms())
            except KafkaError as error:
                # The step was taken but cannot be kept: what the log says is the truth.
                self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
                raise KafkaError(ErrorCode.NOT_COORDINATOR) from error
        if outbox.timers:
            self._timers.update(outbox.timers)
            self._arm()
        if outbox.replies:
            self._reply(outbox.replies)

    def _batch(self, shard: S, outbox: Outbox) -> bytes:
        wall_ms = self._owner.runtime.clock.wall_ms()
        producer_id, epoch = outbox.producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        return build_batch(
            [
                Record(at, wall_ms, *shard.encode(record))
                for at, record in enumerate(outbox.records)
            ],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=outbox.producer is not None,
        )

    def _append(self, batch: bytes, wall_ms: int) -> None:
        try:
            appended = self.partition.append(batch, read_header(batch), wall_ms)
        except KafkaError as error:
            self._owner.replicas.noted(error)
            log.error("a coordinator cannot write", partition=str(self.partition), error=str(error))
            raise
        self._appended = appended.last_offset + 1

    @property
    def _log_is_sound(self) -> bool:
        source = self.partition.log
        return self.partition.error is None and (source is None or source.failure is None)

    def check_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Refuse one whose successor has written here: before a step, since what a step has done
        is not undone."""
        source = self.partition.log
        entry = None if source is None else source.producers.producers.get(producer_id)
        if entry is not None and entry.producer_epoch > producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {entry.producer_epoch}, not {producer_epoch}",
            )

    # --- replies --------------------------------------------------------------------------------

    def _reply(self, replies: list[tuple[Any, Message | Struct]]) -> None:
        needed = self._appended
        if self.partition.high_watermark >= needed and not self._waiting:
            for token, response in replies:
                self._open.pop(token, None)
                token.resolve(response)
            return
        deadline_ms = self._owner.now().ms + self._owner.reply_timeout_ms
        for token, response in replies:
            self._waiting.append(_Waiting(needed, deadline_ms, token, response))
        self._watch_replies()

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        """The high watermark moved."""
        if self._waiting:
            # Not now: somebody is in the middle of an append, and an answer may bring on the next
            # request of its connection.
            self._runtime.call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        high_watermark = self.partition.high_watermark
        while self._waiting and self._waiting[0].needed <= high_watermark:
            reply = self._waiting.popleft()
            self._open.pop(reply.token, None)
            reply.token.resolve(reply.response)

    def _watch_replies(self) -> None:
        if self._waiting and self._reply_timer is None:
            delay_ms = self._waiting[0].deadline_ms - self._owner.now().ms
            self._reply_timer = self._runtime.call_later(
                max(1, delay_ms) / 1000, self._expire_replies
            )

    def _expire_replies(self) -> None:
        """Too few replicas follow: the outcome is open, and the client has to ask again."""
        self._reply_timer = None
        now_ms = self._owner.now().ms
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            reply = self._waiting.popleft()
            self._open.pop(reply.token, None)
            reply.token.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._watch_replies()

    # --- timers ---------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = self._timers.next_due_ms()
        if due_ms is None or self._dropped:
            return
        if self._wake_up is not None:
            if self._wake_up_ms <= due_ms:
                return
            self._wake_up.cancel()
        self._wake_up_ms = due_ms
        delay_ms = max(1, due_ms - self._owner.now().ms)
        self._wake_up = self._runtime.call_later(delay_ms / 1000, self._fire_timers)

    def _fire_timers(self) -> None:
        self._wake_up = None
        for _ in range(TIMERS_PER_TURN):
            key = self._timers.pop_due(self._owner.now().ms)
            if key is None or self._dropped:
                break
            self._fire(key)
        self._arm()

    def _fire(self, key: Any) -> None:
        try:
            self.run(lambda shard, now, outbox: shard.timer_fired(key, now, outbox))
        except KafkaError as error:
            log.warning("a timer came to nothing", partition=str(self.partition), error=str(error))

    # --- life -----------------------------------------------------------------------------------

    async def load(self, shard: S) -> int:
        """Tell the shard everything that its log holds; how many events that were."""
        source = self.partition.log
        if source is None:
            return 0
        count = 0
        offset = source.log_start_offset
        while offset < source.end_offset and not self._dropped:
            piece = source.read(offset, LOAD_BYTES, source.end_offset)
            if piece is None:
                break

            def decoded(piece: Any = piece, offset: int = offset) -> Any:
                return decode_slice(piece.read(), offset, shard.record_types)

            events, offset = await self._runtime.in_thread(decoded)
            count += len(events)
            for start in range(0, len(events), LOAD_EVENTS_PER_TURN):
                replay(shard, events[start : start + LOAD_EVENTS_PER_TURN])
                await asyncio.sleep(0)
        self._appended = source.end_offset
        return count

    def activate(self, shard: S, image: MetadataImage) -> None:
        self.shard = shard
        try:
            self.run(lambda shard, now, outbox: shard.loaded(now, outbox))
        except KafkaError as error:
            log.error("cannot start on", partition=str(self.partition), error=str(error))
        self.metadata_changed(MetadataDelta(), image)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self.shard is None:
            return
        try:
            self.run(lambda shard, now, outbox: shard.metadata_changed(delta, image, now, outbox))
        except KafkaError as error:
            log.warning("a change was lost on", partition=str(self.partition), error=str(error))

    def disturbed(self, partition: Partition) -> None:
        """The partition went offline, was deleted, or has a new leader epoch."""
        self._owner.reload(self, ErrorCode.NOT_COORDINATOR)

    def drop(self, reason: ErrorCode) -> None:
        """Forget the shard. Everyone who waits for an answer looks for the coordinator again."""
        self._dropped = True
        self.shard = None
        self.partition.waiters.pop(self, None)
        for timer in (self._wake_up, self._reply_timer):
            if timer is not None:
                timer.cancel()
        waiting = dict.fromkeys(reply.token for reply in self._waiting)
        self._waiting.clear()
        tokens, self._open = self._open, {}
        for token in {**tokens, **waiting}:
            token.fail(KafkaError(reason))

    @property
    def is_dropped(self) -> bool:
        return self._dropped


class CoordinatorRuntime(Generic[S]):
    """The coordinator of one internal topic on this broker."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        *,
        node_id: int,
        topic: str,
        make_shard: Callable[[int], S],
        reply_timeout_ms: int,
    ) -> None:
        """`make_shard` makes an empty shard for a partition of `topic`."""
        self.runtime = runtime
        self.replicas = replicas
        self.topic = topic
        self.reply_timeout_ms = reply_timeout_ms
        self._node_id = node_id
        self._make_shard = make_shard
        self._image = EMPTY_IMAGE
        self._hosted: dict[int, HostedShard[S]] = {}
        self._to_load: deque[HostedShard[S]] = deque()
        self._loading = False
        self._closed = False
        self._reloaded_s: dict[int, float] = {}

    def now(self) -> Now:
        clock = self.runtime.clock
        return Now(int(clock.now() * 1000), clock.wall_ms())

    # --- asking ---------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """The partition that a group or transactional id belongs to."""
        topic = self._image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no {self.topic} yet")
        return partition_of(key, len(topic.partitions))

    def hosted(self, index: int) -> HostedShard[S]:
        found = self._hosted.get(index)
        if found is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self.topic}-{index}"
            )
        return found

    def request(
        self, key: str, token: Token, step: Step[S], producer: tuple[int, int] | None = None
    ) -> None:
        """Run a step on the shard of `key`. `token` is answered in any case: by the step, by a
        later one, or with the error why there was none. `producer` (id, epoch) is to be given if
        the step writes in a transaction."""
        try:
            hosted = self.hosted(self.partition_for(key))
            if producer is not None:
                hosted.check_producer(*producer)
        except KafkaError as error:
            token.fail(error)
            return
        hosted.request(token, step)

    def run(self, index: int, step: Step[S]) -> None:
        """Run a step on the shard of a partition; raises `KafkaError` where that cannot be."""
        self.hosted(index).run(step)

    async def ask(self, index: int, step: Callable[[S, Token, Now, Outbox], None]) -> Any:
        """Run a step and wait for the answer it gives to its token; raises `KafkaError`."""
        answer = Answer()
        hosted = self.hosted(index)
        hosted.request(answer, lambda shard, now, outbox: step(shard, answer, now, outbox))
        return await answer.future

    def end_transaction(self, index: int, marker: Marker, token: Token, response: Message) -> None:
        """Write a transaction marker into a partition of this topic; `response` answers `token`
        once it is committed."""
        try:
            hosted = self.hosted(index)
        except KafkaError as error:
            token.fail(error)
            return
        hosted.end_transaction(marker, token, response)

    def shards(self) -> Iterator[tuple[int, S]]:
        """All shards of this broker; raises while one of them is loading."""
        for index, hosted in sorted(self._hosted.items()):
            if hosted.shard is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield index, hosted.shard

    # --- following the metadata -----------------------------------------------------------------

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """To be called after the replica manager has taken the change in."""
        self._image = image
        topic = self.replicas.topics.get(self.topic)
        led: dict[int, Partition] = {}
        if topic is not None:
            led = {
                index: partition
                for index, partition in topic.partitions.items()
                if partition.leader_id == self._node_id and partition.error is None
            }
        for index, hosted in list(self._hosted.items()):
            partition = led.get(index)
            if partition is hosted.partition and partition.leader_epoch == hosted.leader_epoch:
                hosted.metadata_changed(delta, image)
            else:
                del self._hosted[index]
                hosted.drop(ErrorCode.NOT_COORDINATOR)
        for index, partition in led.items():
            if index not in self._hosted:
                self._host(index, partition)

    def _host(self, index: int, partition: Partition) -> None:
        hosted = self._hosted[index] = HostedShard(self, partition)
        if partition.log is None or partition.log.end_offset == partition.log.log_start_offset:
            hosted.activate(self._make_shard(index), self._image)
            return
        self._to_load.append(hosted)
        if not self._loading:
            self._loading = True
            self.runtime.spawn(self._load_all(), name=f"load {self.topic}")

    def reload(self, hosted: HostedShard[S], reason: ErrorCode) -> None:
        """Drop a shard and make it anew from the log, if the partition is still to be led here."""
        if hosted.is_dropped:
            return
        hosted.drop(reason)
        index = hosted.partition.index
        if self._hosted.get(index) is hosted:
            del self._hosted[index]
        if not self._closed:
            now_s = self.runtime.clock.now()
            recently = now_s - self._reloaded_s.get(index, -math.inf) < 2 * RELOAD_AGAIN_DELAY_S
            self._reloaded_s[index] = now_s
            delay_s = RELOAD_AGAIN_DELAY_S if recently else RELOAD_DELAY_S
            self.runtime.call_later(delay_s, self._look_again)

    def _look_again(self) -> None:
        if not self._closed:
            self.metadata_changed(MetadataDelta(), self._image)

    # --- loading --------------------------------------------------------------------------------

    async def _load_all(self) -> None:
        try:
            while self._to_load:
                await self._load(self._to_load.popleft())
        finally:
            self._loading = False

    async def _load(self, hosted: HostedShard[S]) -> None:
        if hosted.is_dropped:
            return
        started = self.runtime.clock.now()
        shard = self._make_shard(hosted.partition.index)
        try:
            count = await hosted.load(shard)
        except (KafkaError, OSError, MalformedMessage) as error:
            log.error("cannot load", partition=str(hosted.partition), error=str(error))
            self.reload(hosted, ErrorCode.NOT_COORDINATOR)
            return
        if not hosted.is_dropped:
            hosted.activate(shard, self._image)
            took_ms = round((self.runtime.clock.now() - started) * 1000)
            log.debug("loaded", partition=str(hosted.partition), records=count, took_ms=took_ms)

    def close(self) -> None:
        """Drop everything: clients look elsewhere."""
        self._closed = True
        self._to_load.clear()
        for hosted in self._hosted.values():
            hosted.drop(ErrorCode.NOT_COORDINATOR)
        self._hosted.clear()


class Answer:
    """A token for those who wait in a coroutine."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def resolved(self) -> bool:
        return self.future.done()

    def resolve(self, response: Any) -> None:
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, error: KafkaError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
