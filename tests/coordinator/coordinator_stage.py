"""A coordinator on a stage: virtual time, a log in memory whose watermark a test moves."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.record_codec import GROUP_RECORDS, encode
from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.broker.storage.log import Appended
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.header import BatchHeader, read_header
from ottla.records.record import Record

TOPIC = "__consumer_offsets"
NODE = 1


class _Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class StageRuntime:
    """Runtime with a clock that only `advance` moves."""

    def __init__(self) -> None:
        self.clock = self
        self.random = Random(0)
        self._now_s = 1000.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()
        self.tasks: list[asyncio.Task[object]] = []

    def now(self) -> float:
        return self._now_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self._now_s * 1000)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> _Timer:
        timer = _Timer(lambda: callback(*args))
        heapq.heappush(self._timers, (self._now_s + delay_s, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.call_later(0, callback, *args)

    def in_thread(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        async def run() -> Any:
            await asyncio.sleep(0)
            return function(*args)

        return run()

    def spawn(self, coroutine: Coroutine[Any, Any, object], *, name: str) -> None:
        self.tasks.append(asyncio.ensure_future(coroutine))

    def advance(self, delay_s: float = 0.0) -> None:
        end = self._now_s + delay_s
        while self._timers and self._timers[0][0] <= end:
            self._now_s, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self._now_s = end

    async def settle(self) -> None:
        """Let everything run that was spawned."""
        self.advance()
        while self.tasks:
            await self.tasks.pop()


class StageLog:
    def __init__(self, batches: list[bytes], heights: list[int]) -> None:
        self._batches = batches
        self._ends = heights
        self.failure = None
        self.log_start_offset = 0
        self.producers = SimpleNamespace(producers={})

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, offset: int, bytes_max: int, limit: int) -> Any:
        for batch, end in zip(self._batches, self._ends, strict=True):
            if end > offset:
                return SimpleNamespace(read=lambda batch=batch: batch)
        return None


class StagePartition:
    """A partition whose high watermark follows at once, or when the test says so."""

    topic = TOPIC

    def __init__(self, index: int) -> None:
        self.index = index
        self.leader_id = NODE
        self.leader_epoch = 0
        self.error: ErrorCode | None = None
        self.waiters: dict[Any, None] = {}
        self.batches: list[bytes] = []
        self.ends: list[int] = []
        self.log = StageLog(self.batches, self.ends)
        self.high_watermark = 0
        self.follows = True
        self.lacks_replicas = False
        self.refuses: ErrorCode | None = None

    def append(self, batch: bytes, header: BatchHeader, now_ms: int) -> Appended:
        if self.refuses is not None:
            raise KafkaError(self.refuses)
        base = self.log.end_offset
        placed = bytearray(batch)
        placed[:8] = base.to_bytes(8, "big")
        self.batches.append(bytes(placed))
        self.ends.append(base + header.last_offset_delta + 1)
        if self.follows:
            self.catch_up()
        return Appended(base, base + header.last_offset_delta, 0)

    def append_marker(self, marker: Any, now_ms: int) -> Appended:
        batch = end_txn_marker(
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
        return self.append(batch, read_header(batch), now_ms)

    def disturb(self) -> None:
        for waiter in list(self.waiters):
            waiter.disturbed(self)

    def catch_up(self) -> None:
        self.high_watermark = self.log.end_offset
        for waiter in list(self.waiters):
            waiter.advanced(self, 1)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


class NotingShard:
    """Remembers what it was told."""

    record_types: Mapping[int, tuple[str, str]] = GROUP_RECORDS
    base_sequence = 0

    def __init__(self, index: int) -> None:
        self.index = index
        self.replayed: list[tuple[CoordinatorRecord, int]] = []
        self.ended: list[tuple[int, bool]] = []
        self.fired: list[Hashable] = []
        self.is_loaded = False
        self.images: list[MetadataImage] = []

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        return encode(record)

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        self.replayed.append((record, producer_id))

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        self.ended.append((producer_id, committed))

    def lead_on(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch

    def loaded(self, now: Now, outbox: Outbox) -> None:
        self.is_loaded = True

    def timer_fired(self, key: Hashable, now: Now, outbox: Outbox) -> None:
        self.fired.append(key)

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage, now: Now, outbox: Outbox
    ) -> None:
        self.images.append(image)


class StageToken:
    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def resolved(self) -> bool:
        return bool(self.answers)

    def resolve(self, response: Any) -> None:
        self.answers.append(response)

    def fail(self, error: KafkaError) -> None:
        self.answers.append(error.code)


ANSWER = HeartbeatResponse()


class CoordinatorStage:
    def __init__(
        self,
        make_shard: Callable[[int], Any] = NotingShard,
        *,
        partitions: int = 2,
        created: bool = True,
    ) -> None:
        self.runtime = StageRuntime()
        self.unloaded: list[int] = []
        self.partitions = {index: StagePartition(index) for index in range(partitions)}
        topic = SimpleNamespace(partitions=self.partitions)
        self.replicas = SimpleNamespace(
            topics={TOPIC: topic} if created else {}, fail_dir_if_needed=lambda error: error
        )
        self.coordinator: CoordinatorRuntime[Any] = CoordinatorRuntime(
            self.runtime,  # type: ignore[arg-type]
            self.replicas,  # type: ignore[arg-type]
            node_id=NODE,
            topic=TOPIC,
            make_shard=make_shard,
            unloaded=lambda index: self.unloaded.append(index),
            reply_timeout_ms=5000,
        )
        self.image = _image(partitions) if created else MetadataImage()

    def follow(self) -> None:
        self.coordinator.metadata_changed(MetadataDelta(), self.image)

    def shard(self, index: int = 0) -> Any:
        return self.coordinator.hosted(index).shard

    def other_broker_writes(self, index: int, step: Callable[[Any, Now, Outbox], None]) -> None:
        """What a step writes appears in the log without the shard of this broker."""
        outbox = Outbox()
        step(None, Now(0, 0), outbox)
        records = [Record(at, 0, *encode(record)) for at, record in enumerate(outbox.records)]
        batch = build_batch(records)
        self.partitions[index].append(batch, read_header(batch), 0)

    def request(
        self, step: Callable[[Any, Now, Outbox], None] | None = None, *, writes: bool = True
    ) -> StageToken:
        """Run a step on partition 0 that answers its token besides."""
        token = StageToken()

        def answered(shard: Any, now: Now, outbox: Outbox) -> None:
            if step is not None:
                step(shard, now, outbox)
            outbox.reply(token, ANSWER)

        self.coordinator.hosted(0).request(token, answered, writes=writes)
        return token


def _image(partitions: int) -> MetadataImage:
    topic = TopicImage(
        TOPIC,
        bytes(16),
        {index: PartitionImage(index, NODE, 0, (NODE,), (NODE,), 0) for index in range(partitions)},
    )
    return MetadataImage(topics={TOPIC: topic})
