"""The metadata log `__cluster_metadata-0`: between decisions, the quorum, and who acts on metadata.

On the node that leads the quorum a change goes this way: a pure decision looks at the pending image
(everything appended so far, committed or not) and returns records; they are appended in the loop,
and published and answered once a majority has them on disk. Meanwhile more decisions may append.

All other nodes follow: what is committed becomes their image too (`metadata.follower`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.metadata.batches import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    encode_batch,
    metadata_topic_config,
    split,
)
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.changes import apply_records
from ottla.metadata.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.follower import Follower
from ottla.metadata.image import METADATA_TOPIC, Endpoint, MetadataImage
from ottla.metadata.records import encode_record
from ottla.metadata.replay import TransactionFilter, load_log, load_snapshot
from ottla.metadata.snapshotter import Snapshotter
from ottla.metadata.waiters import Waiters
from ottla.peers.peers import Peers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.protocol.uuids import ZERO_UUID
from ottla.quorum.log import QuorumLog
from ottla.quorum.quorum import Quorum
from ottla.quorum.settings import raft_settings
from ottla.raft.effects import LeaderAndEpoch
from ottla.raft.ids import Endpoint as QuorumEndpoint
from ottla.raft.log_view import BOOTSTRAP_SNAPSHOT
from ottla.raft.settings import RaftSettings
from ottla.raft.states.leader import Leader
from ottla.runtime.runtime import Runtime

log = logging.getLogger("ottla.metadata")

T = TypeVar("T")
Subscriber = Callable[[MetadataDelta, MetadataImage], object]
OnLeadership = Callable[[bool, int], object]
OnFailure = Callable[[Exception], object]

UNCOMMITTED_MAX = 1_000
"""Decisions that may wait for a majority; further ones wait before they are made."""


CLOSE_WAIT_MS = 1_000
"""How long closing waits for what is appended and not committed."""


class _Loaded(NamedTuple):
    """What was on disk."""

    quorum: Quorum
    image: MetadataImage
    transactions: TransactionFilter
    bootstrap: list[Message]


class _Entry(NamedTuple):
    offset: int
    image: MetadataImage
    delta: MetadataDelta
    size: int
    waiter: asyncio.Future[None]


class MetadataLog:
    """Build it with `open`. `image` is committed; `pending`, on the leader, may be ahead of it."""

    def __init__(
        self, runtime: Runtime, config: BrokerConfig, loaded: _Loaded, on_failure: OnFailure
    ) -> None:
        self.image = loaded.image
        self.pending = loaded.image
        self.quorum = quorum = loaded.quorum
        self.node_id = quorum.settings.key.id
        self.is_leader = False
        """This node leads, and `pending` has all that former leaders wrote: it may decide."""
        self.failure: Exception | None = None
        self._runtime = runtime
        self._on_failure = on_failure
        self._bootstrap = loaded.bootstrap
        self._follower = Follower(
            runtime, quorum, loaded.image, loaded.transactions, self._follower_advanced
        )
        self._snapshotter = Snapshotter(runtime, quorum, config)
        if quorum.is_alone:
            self._snapshotter.replayed()
        self._subscribers: list[Subscriber] = []
        self._on_leadership: list[OnLeadership] = []
        self._on_leader_change: list[Callable[[], object]] = []
        self._queue: deque[_Entry] = deque()
        self._room = asyncio.Semaphore(UNCOMMITTED_MAX)
        self._waiters = Waiters()
        self._caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._caught_up_at: int | None = None
        quorum.on_commit = self._committed
        quorum.on_leader = self._leader_changed
        quorum.on_heard = self._heard
        quorum.on_failure = self._failed

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        log_dir: str,
        *,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        clean: bool,
        on_failure: OnFailure,
        directory_id: bytes = ZERO_UUID,
        peers: Peers | None = None,
        endpoints: Sequence[Endpoint] = (),
    ) -> MetadataLog:
        """Load the log in `log_dir` and take part in its quorum.

        A quorum of one is led when this returns. Else the image is that of the last snapshot: what
        comes after it is not known to be committed before a leader says so (see `caught_up`).

        `endpoints` are those of this node's controller listeners. `on_failure` is called once if
        the log can no longer be written: a node without its metadata log must stop. `clean` says
        that the last shutdown was, so that nothing needs recovery.
        """
        settings = raft_settings(
            config,
            node_id=node_id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            endpoints=tuple(sorted(QuorumEndpoint(*each[:3]) for each in endpoints)),
        )
        loaded = await runtime.in_thread(_load, runtime, log_dir, config, settings, peers, clean)
        opened = cls(runtime, config, loaded, on_failure)
        opened._follower.resume(loaded.image)
        loaded.quorum.start()
        if loaded.quorum.is_alone:
            await opened.caught_up()
        return opened

    # What it is

    @property
    def directory(self) -> str:
        return self.quorum.log.directory

    @property
    def end_offset(self) -> int:
        return self.quorum.log.storage.end_offset

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def high_watermark(self) -> int:
        return self.quorum.high_watermark

    @property
    def leader_id(self) -> int:
        """-1 if it is not known. It may not be ready to decide yet."""
        return self.quorum.leader.leader_id

    def leader_endpoint(self) -> tuple[str, int] | None:
        """Where the leader's controller listener is; None if that is not known."""
        return self.quorum.leader_address()

    # Who hears of it

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(delta, image)` after each commit, in order, in the loop.

        What was committed before is not told: start from `image`.
        """
        self._subscribers.append(subscriber)

    def on_leadership(self, callback: OnLeadership) -> None:
        """Call `callback(does this node decide now?, epoch)`: now, and whenever it changes."""
        self._on_leadership.append(callback)
        callback(self.is_leader, self.epoch)

    def on_leader_change(self, callback: Callable[[], object]) -> None:
        """Call it when another node leads, or none, or this one begins or ends to decide."""
        self._on_leader_change.append(callback)

    async def wait_for(self, offset: int) -> None:
        """Return when the image has this offset of the log."""
        if self.image.offset < offset:
            await self._waiters.until(offset)

    async def caught_up(self) -> None:
        """Return when the image has all that was committed when a leader was first heard of."""
        await asyncio.shield(self._caught_up)

    # Deciding

    async def write(
        self, decide: Callable[[MetadataImage], Decision[T]], *, divisible: bool = False
    ) -> T:
        """Make a decision against the pending image, commit its records, then return its response.

        A decision without records waits too, as it may rest on what is not yet committed. One that
        does not fit into a single batch is refused with POLICY_VIOLATION unless it is `divisible`:
        a crash could otherwise leave half of it. NOT_CONTROLLER on a node that does not lead; also
        where it stops leading before the commit, and then it may happen all the same.
        """
        await self._room.acquire()
        try:
            self._check_usable()
            decision = decide(self.pending)
            waiter = self._append(decision.records, divisible)
        except BaseException:
            self._room.release()
            raise
        await waiter
        return decision.response

    async def append(self, records: Sequence[Message]) -> int:
        """Commit `records` as they are; the offset of the last one."""

        def decide(_: MetadataImage) -> Decision[int]:
            return Decision(records, self.end_offset + len(records) - 1)

        return await self.write(decide)

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the metadata log in {self.directory} failed ({self.failure}); the node stops",
            )
        if not self.is_leader:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead the metadata log"
            )

    def _append(self, records: Sequence[Message], divisible: bool) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not records:
            self._queue.append(
                _Entry(self.pending.offset, self.pending, MetadataDelta(), 0, waiter)
            )
            self._publish_committed(self.high_watermark)
            return waiter
        # The image first: records that do not fit it must never reach the log.
        offset = self.end_offset + len(records) - 1
        image, delta = apply_records(self.pending, records, offset, self.epoch)
        batches = self._batches(records, divisible)
        try:
            self.quorum.append(batches)
        finally:
            self._check_usable()
        self.pending = image
        self._queue.append(_Entry(offset, image, delta, sum(map(len, batches)), waiter))
        return waiter

    def _batches(self, records: Sequence[Message], divisible: bool) -> list[bytes]:
        now_ms = self._runtime.clock.wall_ms()
        parts = split([encode_record(record) for record in records])
        batches = [encode_batch(part, now_ms) for part in parts]
        if len(batches) > 1 and not divisible:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(records)} metadata records are too many for one request: at most "
                f"{BATCH_RECORDS_MAX} in {BATCH_BYTES_MAX} bytes; ask for less at a time",
            )
        return batches

    # Committed

    def _committed(self, high_watermark: int) -> None:
        if self.is_leader:
            self._publish_committed(high_watermark)
        else:
            self._follower.advance()

    def _publish_committed(self, high_watermark: int) -> None:
        """What this node decided itself, as far as a majority has it."""
        while self._queue and self._queue[0].offset < high_watermark:
            entry = self._queue.popleft()
            self._room.release()
            self._publish(entry.image, entry.delta, entry.size)
            if not entry.waiter.done():
                entry.waiter.set_result(None)
        if not self._queue and self.image.offset + 1 < high_watermark:
            # The quorum's own records: they are in no decision and change no image.
            self.pending = replace(self.image, offset=high_watermark - 1, epoch=self.epoch)
            self._publish(self.pending, MetadataDelta(), 0)

    def _follower_advanced(self, image: MetadataImage, delta: MetadataDelta, size: int) -> None:
        self.pending = image
        self._publish(image, delta, size)
        if self._caught_up_at is not None and image.offset + 1 >= self._caught_up_at:
            self._is_caught_up()
        self._begin_to_lead()

    def _publish(self, image: MetadataImage, delta: MetadataDelta, size: int) -> None:
        self.image = image
        if delta:
            for subscriber in self._subscribers:
                try:
                    subscriber(delta, image)
                except Exception:
                    log.exception("a subscriber failed on metadata offset %d", image.offset)
        self._waiters.reached(image.offset)
        self._snapshotter.applied(image, size)

    # Leading

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        log.info("epoch %d of the metadata log is led by %d", leader.epoch, leader.leader_id)
        self._stop_leading("another leader was elected")
        self._tell_leader_change()

    def _begin_to_lead(self) -> None:
        """Once everything that former leaders wrote is in the image, and a record of this epoch is
        committed, which says that no other leader can have written more."""
        state = self.quorum.core.state
        if self.is_leader or not self.quorum.is_leader or not isinstance(state, Leader):
            return
        if self.image.offset < state.start_offset:
            return
        self._follower.stop()
        self.is_leader = True
        self._write_first_records()
        self._publish_committed(self.high_watermark)
        self._is_caught_up()
        self._tell_leader_change()

    def _write_first_records(self) -> None:
        """Nobody waits for them: what is decided from here on comes after them."""
        first: list[Message] = []
        if self._follower.transactions.is_open:
            from ottla.protocol.metadata_records import abort_transaction_record as module

            first.append(module.AbortTransactionRecord(reason="its controller is gone"))
            self._follower.transactions = TransactionFilter()
        if not self.image.features:
            first += self._bootstrap
        if first:
            self._runtime.spawn(self.append(first), name="first-metadata-records")

    def _stop_leading(self, reason: str) -> None:
        if not self.is_leader:
            return
        self.is_leader = False
        self._fail_queue(KafkaError(ErrorCode.NOT_CONTROLLER, reason))
        self._follower.resume(self.image)

    def _fail_queue(self, error: KafkaError) -> None:
        self.pending = self.image
        waiting, self._queue = self._queue, deque()
        for entry in waiting:
            self._room.release()
            if not entry.waiter.done():
                entry.waiter.set_exception(error)

    def _tell_leader_change(self) -> None:
        for callback in self._on_leadership:
            _call(callback, self.is_leader, self.epoch)
        for changed in self._on_leader_change:
            _call(changed)

    def _heard(self, high_watermark: int) -> None:
        if self._caught_up_at is None:
            self._caught_up_at = high_watermark
            if self.image.offset + 1 >= high_watermark:
                self._is_caught_up()

    def _is_caught_up(self) -> None:
        if not self._caught_up.done():
            self._caught_up.set_result(None)

    # The end

    async def close(self) -> None:
        """Commit what is appended, hand leadership over, then close the log."""
        if self._queue and self.failure is None:
            await asyncio.wait([self._queue[-1].waiter], timeout=CLOSE_WAIT_MS / 1000)
        await self._snapshotter.close()
        await self.quorum.close(clean=self.failure is None)
        self.is_leader = False
        self._follower.stop()
        closing = KafkaError(ErrorCode.NOT_CONTROLLER, "this node is closing")
        self._fail_queue(closing)
        self._waiters.fail(closing)

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self.is_leader = False
        self._follower.stop()
        reason = f"the metadata log could not be written: {error}"
        self._fail_queue(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        self._waiters.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        if not self._caught_up.done():
            self._caught_up.set_exception(error)
        self._tell_leader_change()
        self._on_failure(error)


def _call(callback: Callable[..., object], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:
        log.exception("whoever was told of the leader failed")


def _load(
    runtime: Runtime,
    log_dir: str,
    config: BrokerConfig,
    settings: RaftSettings,
    peers: Peers | None,
    clean: bool,
) -> _Loaded:
    disk, directory = runtime.disk, f"{log_dir}/{METADATA_TOPIC}-0"
    topic_config = metadata_topic_config(config)
    quorum_log = QuorumLog.open(disk, runtime.clock, directory, topic_config, clean=clean)
    quorum = Quorum.load(runtime, settings, quorum_log, peers)
    image, transactions = MetadataImage(cluster_id=settings.cluster_id), TransactionFilter()
    snapshot = quorum_log.latest_snapshot
    if snapshot is not None and snapshot != BOOTSTRAP_SNAPSHOT:
        image = load_snapshot(disk, directory, snapshot, settings.cluster_id)
    if quorum.is_alone:
        image = load_log(quorum_log, image, transactions)
    return _Loaded(quorum, image, transactions, read_bootstrap(disk, log_dir))
