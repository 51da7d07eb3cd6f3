"""The metadata log `__cluster_metadata-0`: connects decisions, the quorum and subscribers.

On the node that leads the quorum, a pure decision gets the pending image (everything appended so
far, committed or not) and returns records; these are appended in the loop, and published and
answered once a majority has them on disk. Meanwhile more decisions may append.

All other nodes follow: committed records are applied to their image too (`metadata.follower`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ottla.broker.metadata.batches import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    encode_in_steps,
    metadata_topic_config,
)
from ottla.broker.metadata.bootstrap import read_bootstrap
from ottla.broker.metadata.catch_up import CatchUp
from ottla.broker.metadata.changes import apply_records
from ottla.broker.metadata.completeness import check_is_whole
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.decision_queue import DecisionQueue
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.follower import Follower
from ottla.broker.metadata.image import METADATA_TOPIC, Endpoint, MetadataImage
from ottla.broker.metadata.leadership_logger import LeadershipLogger
from ottla.broker.metadata.replay import TransactionFilter, load_log, load_snapshot
from ottla.broker.metadata.snapshotter import Snapshotter
from ottla.broker.metadata.waiters import Waiters
from ottla.broker.peers.peers import Peers
from ottla.broker.quorum import snapshot_files, state_file
from ottla.broker.quorum.log import QuorumLog
from ottla.broker.quorum.quorum import Quorum
from ottla.broker.quorum.settings import raft_settings
from ottla.broker.raft.effects import LeaderAndEpoch
from ottla.broker.raft.ids import Endpoint as QuorumEndpoint
from ottla.broker.raft.log_view import BOOTSTRAP_SNAPSHOT
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.states.leader import Leader
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.protocol.uuids import ZERO_UUID
from ottla.runtime.collector import collector_paused
from ottla.runtime.pace import at_once, in_slices
from ottla.runtime.runtime import Runtime

log = get_logger("ottla.metadata")

T = TypeVar("T")
Subscriber = Callable[[MetadataDelta, MetadataImage], object]
"""A subscriber that is not done when it returns gives a future that resolves when it is."""
OnLeadership = Callable[[bool, int], object]
OnFailure = Callable[[Exception], object]

AT_ONCE_RECORDS_MAX = 1_000
"""The most records written in one go, which takes some milliseconds."""
CLOSE_WAIT_MS = 1_000
"""How long closing waits for records that are appended but not committed."""


class _Loaded(NamedTuple):
    """The state of the metadata log as read from disk."""

    quorum: Quorum
    image: MetadataImage
    transactions: TransactionFilter
    bootstrap: list[Message]


class MetadataLog:
    """Create it with `open`. `image` is committed; `pending`, on the leader, may be ahead of it."""

    def __init__(
        self, runtime: Runtime, config: BrokerConfig, loaded: _Loaded, on_failure: OnFailure
    ) -> None:
        self.image = loaded.image
        self.pending = loaded.image
        self.quorum = quorum = loaded.quorum
        self.node_id = quorum.settings.key.id
        self.is_leader = False
        """True if this node leads and `pending` has all records of former leaders: it may
        decide."""
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
        self.news = LeadershipLogger(runtime, self.node_id)
        self._subscribers: list[Subscriber] = []
        self._on_leadership: list[OnLeadership] = []
        self._on_leader_change: list[Callable[[], object]] = []
        self._queue = DecisionQueue()
        self._deciding = asyncio.Lock()
        """Held from a decision until its records are appended, because the next decision depends on
        them."""
        self._waiters = Waiters()
        self._catch_up = CatchUp()
        quorum.on_commit = self._committed
        quorum.on_leader = self._leader_changed
        quorum.on_heard = lambda mark: self._catch_up.heard(mark, self.image.offset + 1)
        quorum.on_lost_leader = self.news.lost
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
        """Load the log in `log_dir` and join its quorum.

        A quorum of one is led when this returns. Otherwise the image is that of the last snapshot:
        later records are not known to be committed until a leader says so (see `caught_up`).

        `endpoints` are those of this node's controller listeners. `on_failure` is called once if
        the log can no longer be written: a node without its metadata log must stop. `clean`: the
        last shutdown was clean, so that nothing needs recovery.
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

    # State

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
        """The leader's id; -1 if it is not known. It may not be ready to decide yet."""
        return self.quorum.leader.leader_id

    def leader_endpoint(self) -> tuple[str, int] | None:
        """The address of the leader's controller listener; None if it is not known."""
        return self.quorum.leader_address()

    # Subscriptions

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(delta, image)` after each commit, in order, in the loop. A decision is
        answered when all subscribers are done.

        Earlier commits are not reported: start from `image`.
        """
        self._subscribers.append(subscriber)

    def on_leadership(self, callback: OnLeadership) -> None:
        """Call `callback(does this node decide now?, epoch)`: now, and on each change."""
        self._on_leadership.append(callback)
        callback(self.is_leader, self.epoch)

    def on_leader_change(self, callback: Callable[[], object]) -> None:
        """Call it when another node leads, or none, or this one starts or stops deciding."""
        self._on_leader_change.append(callback)

    async def wait_for(self, offset: int) -> None:
        """Return when the image has reached this offset of the log."""
        if self.image.offset < offset:
            await self._waiters.until(offset)

    async def caught_up(self) -> None:
        """Return when the image has all records that were committed when a leader was first heard
        of."""
        await self._catch_up.wait()

    # Deciding

    async def write(
        self,
        decide: Callable[[MetadataImage], Decision[T]],
        *,
        divisible: bool = False,
        paced: bool = False,
    ) -> T:
        """Make a decision against the pending image, commit its records, then return its response.

        A decision without records waits too, as it may depend on uncommitted records. One that does
        not fit into a single batch is refused with POLICY_VIOLATION unless it is `divisible`:
        otherwise a crash could leave half of it. Raises NOT_CONTROLLER on a node that does not
        lead; also if it stops leading before the commit, and then the change may still happen.

        A decision of thousands of records may be `paced`: work other than decisions runs while it
        is written. Nothing in it may depend on the offsets of its records, as the quorum may write
        records of its own meanwhile.
        """
        await self._queue.take_room()
        try:
            async with self._deciding:
                self._check_usable()
                decision = decide(self.pending)
                steps = encode_in_steps(decision.records, self._runtime.clock.wall_ms())
                if paced and len(decision.records) > AT_ONCE_RECORDS_MAX:
                    batches = await self._encoded_in_slices(steps)
                else:
                    batches = at_once(steps)
                waiter = self._append(decision.records, batches, divisible)
        except BaseException:
            self._queue.give_back_room()
            raise
        response = decision.response
        # do not keep thousands of records in memory until all are published
        del decision, steps, batches
        await waiter
        return response

    async def append(self, records: Sequence[Message]) -> int:
        """Commit `records` as they are; return the offset of the last one."""

        def decide(_: MetadataImage) -> Decision[int]:
            return Decision(records, self.end_offset + len(records) - 1)

        return await self.write(decide)

    async def _encoded_in_slices(self, steps: Generator[None, None, list[bytes]]) -> list[bytes]:
        epoch = self.epoch
        # garbage collection of these records must not block the loop either
        with collector_paused():
            batches = await in_slices(self._runtime, steps)
        # `pending` may now be another leader's work.
        self._check_usable()
        if self.epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "another leader was elected")
        return batches

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

    def _append(
        self, records: Sequence[Message], batches: Sequence[bytes], divisible: bool
    ) -> asyncio.Future[None]:
        if not records:
            waiter = self._queue.put(self.pending.offset, self.pending, MetadataDelta(), 0)
            self._publish_committed(self.high_watermark)
            return waiter
        if len(batches) > 1 and not divisible:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(records)} metadata records are too many for one request: at most "
                f"{BATCH_RECORDS_MAX} in {BATCH_BYTES_MAX} bytes; ask for less at a time",
            )
        # Apply to the image first: records that do not fit it must never reach the log.
        offset = self.end_offset + len(records) - 1
        image, delta = apply_records(self.pending, records, offset, self.epoch)
        try:
            self.quorum.append(batches)
        finally:
            self._check_usable()
        self.pending = image
        return self._queue.put(offset, image, delta, sum(map(len, batches)))

    # Committed

    def _committed(self, high_watermark: int) -> None:
        if self.is_leader:
            self._publish_committed(high_watermark)
        else:
            self._follower.advance()

    def _publish_committed(self, high_watermark: int) -> None:
        """Publish this node's own decisions up to the high watermark."""
        for entry in self._queue.take_committed(high_watermark):
            under_way = self._publish(entry.image, entry.delta, entry.size)
            _settle_after(under_way, entry.waiter)
        if not self._queue and self.image.offset + 1 < high_watermark:
            # The quorum's own records: they belong to no decision and change no image.
            self.pending = replace(self.image, offset=high_watermark - 1, epoch=self.epoch)
            self._publish(self.pending, MetadataDelta(), 0)

    def _follower_advanced(self, image: MetadataImage, delta: MetadataDelta, size: int) -> None:
        self.pending = image
        self._publish(image, delta, size)
        self._catch_up.reached(image.offset + 1)
        self._begin_to_lead()

    def _publish(
        self, image: MetadataImage, delta: MetadataDelta, size: int
    ) -> list[asyncio.Future[Any]]:
        """Notify the subscribers; return the futures of those that are not done."""
        self.image = image
        under_way: list[asyncio.Future[Any]] = []
        if delta:
            for subscriber in self._subscribers:
                try:
                    rest = subscriber(delta, image)
                except Exception:
                    log.exception("a subscriber failed on metadata offset %d", image.offset)
                    continue
                if isinstance(rest, asyncio.Future):
                    under_way.append(rest)
        self._waiters.reached(image.offset)
        self._snapshotter.applied(image, size)
        return under_way

    # Leading

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        self.news.changed(leader)
        self._stop_leading("another leader was elected")
        self._tell_leader_change()

    def _begin_to_lead(self) -> None:
        """Start to decide once all records of former leaders are in the image, and a record of this
        epoch is committed, which shows that no other leader can have written more."""
        state = self.quorum.core.state
        if self.is_leader or not self.quorum.is_leader or not isinstance(state, Leader):
            return
        if self.image.offset < state.start_offset:
            return
        self._follower.stop()
        self.is_leader = True
        self._write_first_records()
        self._publish_committed(self.high_watermark)
        self._catch_up.complete()
        self._tell_leader_change()

    def _write_first_records(self) -> None:
        """Write the first records without waiting: later decisions come after them."""
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
        self._fail_decisions(KafkaError(ErrorCode.NOT_CONTROLLER, reason))
        self._follower.resume(self.image)

    def _fail_decisions(self, error: KafkaError) -> None:
        self.pending = self.image
        self._queue.fail(error)

    def _tell_leader_change(self) -> None:
        for callback in self._on_leadership:
            _call(callback, self.is_leader, self.epoch)
        for changed in self._on_leader_change:
            _call(changed)

    # Closing

    async def close(self, *, is_last: bool = False) -> None:
        """Commit what is appended, hand over leadership, then close the log. `is_last`: this node
        is the last to stop, so there is no majority to commit with."""
        self.news.close()
        can_commit = self.quorum.is_alone or not is_last
        if self.failure is None and can_commit:
            await self._queue.wait_until_empty(CLOSE_WAIT_MS / 1000)
        await self._snapshotter.close()
        await self.quorum.close(clean=self.failure is None)
        self.is_leader = False
        self._follower.stop()
        closing = KafkaError(ErrorCode.NOT_CONTROLLER, "this node is closing")
        self._fail_decisions(closing)
        self._waiters.fail(closing)

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self.is_leader = False
        self._follower.stop()
        reason = f"the metadata log could not be written: {error}"
        self._fail_decisions(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        self._waiters.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        self._catch_up.fail(error)
        self._tell_leader_change()
        self._on_failure(error)


def _settle_after(under_way: list[asyncio.Future[Any]], waiter: asyncio.Future[None]) -> None:
    """Resolve `waiter` once the last of these is done, now if there are none."""
    left = len(under_way)

    def one_done(_: object = None) -> None:
        nonlocal left
        left -= 1
        if left <= 0 and not waiter.done():
            waiter.set_result(None)

    if not under_way:
        one_done()
    for rest in under_way:
        rest.add_done_callback(one_done)


def _call(callback: Callable[..., object], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:
        log.exception("a callback on a change of the metadata log's leader failed")


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
    # What can keep the node from starting is looked at first: opening the log may truncate it.
    state_file.read(disk, directory)
    clean = check_is_whole(disk, directory, settings, config, clean=clean)
    image, transactions = MetadataImage(cluster_id=settings.cluster_id), TransactionFilter()
    snapshots = snapshot_files.find(disk.list_dir(directory) if disk.exists(directory) else ())
    if snapshots and snapshots[-1] != BOOTSTRAP_SNAPSHOT:
        image = load_snapshot(disk, directory, snapshots[-1], settings.cluster_id)
    quorum_log = QuorumLog.open(disk, runtime.clock, directory, topic_config, clean=clean)
    quorum = Quorum.load(runtime, settings, quorum_log, peers)
    if quorum.is_alone:
        image = load_log(quorum_log, image, transactions)
    bootstrap = [] if image.features else read_bootstrap(disk, log_dir)
    return _Loaded(quorum, image, transactions, bootstrap)
