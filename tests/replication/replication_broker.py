"""One broker of a story: a real partition on a disk that may lose what was not synced."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from replication_controller import (
    BROKERS,
    LAG_MAX_MS,
    TOPIC_ID,
)

from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.broker.replication import following
from ottla.broker.replication.cluster_view import ClusterView
from ottla.broker.replication.follower_fetch import FollowerFetch, take_fetch
from ottla.broker.replication.leader_state import Proposal
from ottla.broker.replication.partition import Partition
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.builder import build_batch
from ottla.records.header import batches, read_header
from ottla.records.reader import read_records
from ottla.records.record import Record
from ottla.sim.disk import Faults, Machinery, SimDisk
from ottla.sim.process import Process
from ottla.sim.trace import Trace
from ottla.sim.volume import Volume

if TYPE_CHECKING:
    from replication_world import World


FETCH_BYTES = 400
CONFIG = TopicConfig(
    segment_bytes=2000,
    index_interval_bytes=200,
    segment_index_bytes=512,
    retention_ms=-1,
    file_delete_delay_ms=0,
    min_insync_replicas=2,
)


class Fetch(NamedTuple):
    sender: int
    number: int
    body: FollowerFetch


class Fetched(NamedTuple):
    number: int
    asked: FollowerFetch
    error: ErrorCode
    parting: tuple[int, int] | None
    data: bytes
    high_watermark: int
    log_start_offset: int
    log_end_offset: int


class Produced:
    """An acks=all producer that waits: the real waiter's rules."""

    def __init__(self, world: World, partition: Partition, offset: int, value: bytes) -> None:
        self.world = world
        self.offset = offset
        self.value = value
        partition.waiters[self] = None

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if partition.high_watermark > self.offset:
            partition.waiters.pop(self, None)
            if not partition.has_too_few_replicas:
                self.world.acknowledge(self.offset, self.value)

    def disturbed(self, partition: Partition) -> None:
        partition.waiters.pop(self, None)


@dataclass
class Broker:
    """One broker through its lives."""

    id: int
    world: World
    volume: Volume
    life: int = 0
    up: bool = False
    news: deque[tuple[PartitionImage, MetadataImage]] = field(default_factory=deque)
    partition: Partition = field(init=False)
    view: ClusterView = field(init=False)
    checkpoint: int = 0
    broker_epoch: int = 0
    fetch_number: int = 0
    """Of the one fetch that is under way; answers to those before it are void. (They may still
    reach a leader: from a connection that has been given up.)"""
    high_watermark_seen: int = 0
    term_seen: int = -1

    def start(self) -> None:
        self.life += 1
        self.up = True
        clock = self.world.clock
        process = Process(f"broker{self.id}", self.life)
        disk = SimDisk(Machinery(process, self.volume, Faults(), Trace(clock.now)), {})
        self.view = ClusterView(self.id, clock, LAG_MAX_MS)
        self.view.broker_epoch = lambda: self.broker_epoch
        self.view.propose = self._propose
        log = Log.open(disk, "/data/t-0", "t", 0, CONFIG, clock, clean=False, topic_id=TOPIC_ID)
        self.partition = Partition("t", TOPIC_ID, 0, self._no_log, lambda _: None, self.view)
        self.partition.min_insync_replicas = CONFIG.min_insync_replicas
        self.partition.replica_count = len(BROKERS)
        self.partition.attach(log, self.checkpoint)
        self.news.clear()
        self.fetch_number += 1
        self.high_watermark_seen, self.term_seen = 0, -1

    def _propose(self, _: Partition, proposal: Proposal) -> None:
        self.world.proposals.append((self, self.life, proposal))

    def _no_log(self, _: Partition) -> Log:
        raise AssertionError("it has a log")

    @property
    def log(self) -> Log:
        log = self.partition.log
        assert log is not None
        return log

    @property
    def is_cut(self) -> bool:
        """Whether its log was truncated, and that is not on disk yet."""
        return self.log.flusher.has_removed_names or any(one.is_cut for one in self.log.segments)

    def hear(self) -> None:
        """Apply the oldest news."""
        if not self.news:
            return
        assigned, image = self.news.popleft()
        self.view.image = image
        if assigned.leader == self.id:
            self.partition.lead(assigned)
        else:
            self.partition.follow(assigned)

    # --- following ------------------------------------------------------------------------------

    def fetch(self) -> FollowerFetch:
        log = self.log
        return FollowerFetch(
            self.id,
            self.broker_epoch,
            self.partition.leader_epoch,
            log.end_offset,
            log.latest_epoch,
            log.log_start_offset,
        )

    def serve(self, fetch: FollowerFetch, number: int) -> Fetched:
        partition, log = self.partition, self.log
        error, parting, data = ErrorCode.NONE, None, b""
        try:
            parting = take_fetch(partition, fetch, self.view.now_ms())
            if parting is None:
                part = log.read(fetch.offset, FETCH_BYTES, log.end_offset)
                data = b"" if part is None else part.read()
        except KafkaError as refused:
            error = refused.code
        return Fetched(
            number,
            fetch,
            error,
            parting,
            data,
            partition.high_watermark,
            log.log_start_offset,
            log.end_offset,
        )

    def take(self, fetched: Fetched) -> None:
        """What the fetcher does with an answer."""
        partition, asked = self.partition, fetched.asked
        if (
            partition.is_leader
            or partition.leader_epoch != asked.leader_epoch
            or asked.offset != self.log.end_offset
        ):
            return
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            following.follow_from(partition, fetched.log_start_offset, fetched.log_end_offset)
        elif fetched.error == ErrorCode.NONE and fetched.parting is not None:
            following.truncate_by_epoch(partition, *fetched.parting)
            if self.world.chance.random() < 0.5:
                self.log.sync_cuts()
        elif fetched.error == ErrorCode.NONE:
            if fetched.data:
                following.append_fetched(
                    partition, fetched.data, asked.leader_epoch, self.world.clock.ms
                )
            following.take_marks(partition, fetched.high_watermark, fetched.log_start_offset)

    # --- leading --------------------------------------------------------------------------------

    def produce(self, value: bytes) -> None:
        partition = self.partition
        if partition.lacks_replicas:
            return
        batch = bytearray(build_batch([Record(0, self.world.clock.ms, None, value, ())]))
        appended = partition.append(batch, read_header(batch), self.world.clock.ms)
        waiter = Produced(self.world, partition, appended.last_offset, value)
        waiter.advanced(partition, 0)

    def values(self, upto: int, since: int = 0) -> dict[int, bytes]:
        """What its log holds below `upto`."""
        found: dict[int, bytes] = {}
        offset = max(since, self.log.log_start_offset)
        while offset < upto:
            part = self.log.read(offset, 1 << 20, upto)
            if part is None:
                break
            for header, batch in batches(part.read()):
                for record in read_records(batch):
                    if record.offset < upto:
                        found[record.offset] = record.value or b""
                offset = header.next_offset
        return found
