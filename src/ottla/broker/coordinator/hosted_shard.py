"""A partition of an internal topic that this broker leads, with its shard.

A step and its append run in one go on the loop, so that the state of a shard and its log never
differ. If the append fails, the shard is dropped and loaded again from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from ottla.broker.coordinator.loading import end_of, events_of
from ottla.broker.coordinator.outbox import Outbox
from ottla.broker.coordinator.replaying import Replay
from ottla.broker.coordinator.shard import S, Step, Token
from ottla.broker.coordinator.timers import TimerQueue
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.replication.partition import TransactionEnd as Marker
from ottla.buffers import Buffer
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch
from ottla.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    batches,
    read_header,
)
from ottla.records.reader import payload_of
from ottla.records.record import Record

if TYPE_CHECKING:
    from ottla.broker.coordinator.runtime import CoordinatorRuntime
    from ottla.broker.replication.partition import Partition
    from ottla.broker.storage.log import Appended
    from ottla.runtime.runtime import Timer

log = get_logger("ottla.coordinator")

LOAD_BYTES: Final = 256 * 1024
"""The number of bytes read at once, in a thread."""
OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes that a compressed batch may decompress to. Only Kafka writes such batches, and
never larger than `max.message.bytes`."""
LOAD_TURN_S: Final = 0.004
EVENTS_BETWEEN_CLOCK_LOOKS: Final = 32
TIMERS_PER_TURN: Final = 64


class _Waiting(NamedTuple):
    """A reply that waits for the high watermark."""

    needed: int
    deadline_ms: int
    token: Token
    response: Any


class HostedShard(Generic[S]):
    """A partition that this broker leads, with its shard once that is loaded."""

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

    def request(self, token: Token, step: Step[S], *, writes: bool = True) -> None:
        """Run a step for a request. Its token is always answered: now, later or with an error."""
        if writes and self.partition.lacks_replicas:
            # Check this before the step, because a step cannot be undone.
            token.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few in-sync replicas"))
            return
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
        """Run a step and carry out what it asks for; raises `KafkaError` if the step refuses."""
        shard = self.shard
        if shard is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        outbox = Outbox()
        try:
            step(shard, self._owner.now(), outbox)
        except KafkaError:
            raise
        except Exception as error:
            # The step may have changed some of the state: the log is the truth.
            log.error("a coordinator's step failed", partition=str(self.partition), exc_info=error)
            self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self._carry_out(shard, outbox)

    def end_transaction(self, marker: Marker, token: Token, response: Message) -> None:
        """Append a transaction marker, apply it to the shard, and answer `response` when it is
        committed."""
        shard = self.shard
        if shard is None:
            token.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        if self.partition.lacks_replicas:
            token.fail(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        now = self._owner.now()
        try:
            self._append(lambda: self.partition.append_marker(marker, now.wall_ms))
        except KafkaError as error:
            # A marker may be refused because of its producer's epoch; the shard is unchanged then.
            if not self._log_is_sound:
                self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
            token.fail(error)
            return
        except Exception as error:
            # The marker may be in the log or not: the log is the truth.
            log.error("marker not written", partition=str(self.partition), exc_info=error)
            self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
            token.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        try:
            shard.transaction_ended(marker.producer_id, committed=marker.committed)
        except Exception as error:
            log.error("marker not applied", partition=str(self.partition), exc_info=error)
            self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
            token.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
            return
        self._reply([(token, response)])
        if not token.resolved:
            self._open[token] = None

    def _carry_out(self, shard: S, outbox: Outbox) -> None:
        if outbox.records:
            try:
                self._write(shard, outbox)
            except Exception as error:
                # The step has changed the state but its records were not written: the log is the
                # truth.
                self._owner.reload(self, ErrorCode.NOT_COORDINATOR)
                if isinstance(error, KafkaError):
                    raise KafkaError(_code_for_failed_write(error.code)) from error
                log.error("records not written", partition=str(self.partition), exc_info=error)
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        if outbox.timers:
            self._timers.update(outbox.timers)
            self._arm()
        if outbox.replies:
            self._reply(outbox.replies)

    def _write(self, shard: S, outbox: Outbox) -> None:
        batch = self._batch(shard, outbox)
        wall_ms = self._owner.runtime.clock.wall_ms()
        self._append(lambda: self.partition.append(batch, read_header(batch), wall_ms))

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
            base_sequence=shard.base_sequence,
            transactional=outbox.producer is not None,
        )

    def _append(self, append: Callable[[], Appended]) -> None:
        try:
            appended = append()
        except KafkaError as error:
            self._owner.replicas.fail_dir_if_needed(error)
            log.error(
                "a coordinator could not append to its partition",
                partition=str(self.partition),
                error=str(error),
            )
            raise
        self._appended = appended.last_offset + 1

    @property
    def _log_is_sound(self) -> bool:
        source = self.partition.log
        return self.partition.error is None and (source is None or source.failure is None)

    def check_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Refuse a producer if a newer epoch of it has written here. Call it before a step, because
        a step cannot be undone."""
        source = self.partition.log
        entry = None if source is None else source.producers.producers.get(producer_id)
        if entry is not None and entry.producer_epoch > producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {entry.producer_epoch}, not {producer_epoch}",
            )

    # --- replies --------------------------------------------------------------------------------

    def _reply(self, replies: list[tuple[Any, Any]]) -> None:
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
        """The high watermark advanced."""
        if self._waiting:
            # Reply later: an append is in progress, and a reply may trigger the next request of its
            # connection.
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
        """Fail replies whose records were not replicated in time. Their outcome is open, so the
        client has to ask again."""
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
            log.warning("timer failed", partition=str(self.partition), error=str(error))

    # --- lifecycle ------------------------------------------------------------------------------

    async def load(self, shard: S) -> Replay:
        """Replay all records of the log into the shard."""
        replay = Replay(shard, self.partition)
        source = self.partition.log
        if source is None:
            return replay
        offset = source.log_start_offset
        while offset < source.end_offset and not self._dropped:
            source = self.partition.log or source  # the log may move to another log dir meanwhile
            piece = source.read(offset, LOAD_BYTES, source.end_offset)
            if piece is None:
                break
            data = await self._runtime.in_thread(piece.read)
            await self._replay(shard, replay, data, offset)
            following = end_of(data, offset)
            if following == offset:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at offset {offset}")
            offset = following
        self._appended = source.end_offset
        replay.finish()
        return replay

    async def _replay(self, shard: S, replay: Replay, data: bytes, offset: int) -> None:
        """Replay in short turns, so that other requests are served in between."""
        clock = self._runtime.clock
        turn_ends = clock.now() + LOAD_TURN_S
        for header, batch in batches(data):
            if header.last_offset < offset:
                continue
            try:
                payload = await self._opened(header, batch)
            except InvalidBatch as error:
                replay.skip(header.base_offset, error.message)
                continue
            for event in events_of(header, payload, shard.record_types):
                replay.tell(event)
                if not replay.events % EVENTS_BETWEEN_CLOCK_LOOKS and clock.now() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = clock.now() + LOAD_TURN_S

    async def _opened(self, header: BatchHeader, batch: memoryview) -> Buffer:
        if header.codec is Codec.NONE:
            return payload_of(header, batch)
        return await self._runtime.in_thread(payload_of, header, batch, OPENED_BYTES_MAX)

    def lead_on(self, leader_epoch: int) -> None:
        """Take the leader epoch, which may be new. The shard stays: it still matches its log."""
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            if self.shard is not None:
                self.shard.lead_on(leader_epoch)

    def activate(self, shard: S, image: MetadataImage) -> None:
        self.shard = shard
        shard.lead_on(self.leader_epoch)
        try:
            self.run(lambda shard, now, outbox: shard.loaded(now, outbox))
        except KafkaError as error:
            log.error("shard activation failed", partition=str(self.partition), error=str(error))
        self.metadata_changed(MetadataDelta(), image)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self.shard is None:
            return
        try:
            self.run(lambda shard, now, outbox: shard.metadata_changed(delta, image, now, outbox))
        except KafkaError as error:
            log.warning(
                "metadata change not applied", partition=str(self.partition), error=str(error)
            )

    def disturbed(self, partition: Partition) -> None:
        """The partition went offline, was deleted, or has a new leader or leader epoch."""
        if partition.error is not None or partition.leader_id != self._owner.node_id:
            self._owner.reload(self, ErrorCode.NOT_COORDINATOR)

    def drop(self, reason: ErrorCode) -> None:
        """Drop the shard, and fail all waiting requests so that their clients look for the
        coordinator again."""
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


def _code_for_failed_write(code: ErrorCode) -> ErrorCode:
    """Return the error code that Kafka returns for a batch that its log refused."""
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NOT_COORDINATOR
