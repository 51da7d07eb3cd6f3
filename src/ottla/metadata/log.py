"""The metadata log `__cluster_metadata-0` of a quorum of one: between decisions and disk.

Every change goes the same way: a pure decision looks at the pending image (everything appended so
far, committed or not) and returns records; they are appended in the loop, made durable by an fsync
in a thread, and only then published and answered. While one fsync runs, more decisions may append;
the next fsync commits all of them together.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.metadata import quorum_state
from ottla.metadata.changes import apply_records
from ottla.metadata.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import METADATA_TOPIC, MetadataImage
from ottla.metadata.records import encode_record
from ottla.metadata.replay import Replayed, replay
from ottla.protocol.codec import encoder
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage, Voter
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.raft.election_state import ElectionState
from ottla.records.builder import Record, build_batch
from ottla.records.control import leader_change_batch
from ottla.records.header import read_header
from ottla.runtime.runtime import Runtime
from ottla.storage.errors import LogDirFailure
from ottla.storage.log import Log

log = logging.getLogger("ottla.metadata")

T = TypeVar("T")
Subscriber = Callable[[MetadataDelta, MetadataImage], object]

BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_MAX = 8 * 1024 * 1024
UNCOMMITTED_MAX = 1_000
"""Decisions that may wait for an fsync; further ones wait before they are made."""


class _Entry(NamedTuple):
    offset: int
    image: MetadataImage
    delta: MetadataDelta
    waiter: asyncio.Future[None]


class MetadataLog:
    """Build it with `open`. `image` is committed, `pending` may be ahead of it by an fsync."""

    def __init__(
        self,
        runtime: Runtime,
        storage: Log,
        replayed: Replayed,
        node_id: int,
        on_failure: Callable[[Exception], object],
    ) -> None:
        self.image = replayed.image
        self.pending = replayed.image
        self.epoch = replayed.epoch
        self.node_id = node_id
        self.failure: Exception | None = None
        self._runtime = runtime
        self._log = storage
        self._on_failure = on_failure
        self._subscribers: list[Subscriber] = []
        self._queue: deque[_Entry] = deque()
        self._room = asyncio.Semaphore(UNCOMMITTED_MAX)
        self._committing = False

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
        on_failure: Callable[[Exception], object],
    ) -> MetadataLog:
        """Load and replay the log in `log_dir`, then lead it in the next epoch.

        `on_failure` is called once if the log can no longer be written: a node without its metadata
        log must stop. `clean` says that the last shutdown was, so that nothing needs recovery.
        """
        directory = f"{log_dir}/{METADATA_TOPIC}-0"
        storage, replayed, epoch = await runtime.in_thread(
            _load, runtime, directory, cluster_id, metadata_topic_config(config), clean
        )
        opened = cls(runtime, storage, replayed, node_id, on_failure)
        await opened._lead(epoch + 1)
        return opened

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def is_leader(self) -> bool:
        return True

    def leader_endpoint(self) -> tuple[str, int] | None:
        return None

    def on_leader_change(self, callback: Callable[[], object]) -> None:
        """Never: a quorum of one stays as it is."""

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(delta, image)` after each commit, in order, in the loop.

        What was committed before is not told: start from `image`.
        """
        self._subscribers.append(subscriber)

    async def write(
        self, decide: Callable[[MetadataImage], Decision[T]], *, divisible: bool = False
    ) -> T:
        """Make a decision against the pending image, commit its records, then return its response.

        A decision without records waits too, as it may rest on what is not yet committed. One that
        does not fit into a single batch is refused with POLICY_VIOLATION unless it is `divisible`:
        a crash could otherwise leave half of it.
        """
        await self._room.acquire()
        try:
            self._check_usable()
            decision = decide(self.pending)
            entry = self._append(decision.records, divisible)
        except BaseException:
            self._room.release()
            raise
        await entry.waiter
        return decision.response

    async def append(self, records: Sequence[Message]) -> int:
        """Commit `records` as they are; the offset of the last one."""

        def decide(pending: MetadataImage) -> Decision[int]:
            return Decision(records, pending.offset + len(records))

        return await self.write(decide)

    async def close(self) -> None:
        """Commit what is appended, then close the log."""
        while self._queue and self.failure is None:
            await asyncio.wait([self._queue[-1].waiter])
        clean = self.failure is None
        await self._runtime.in_thread(lambda: self._log.close(clean=clean))

    async def _lead(self, epoch: int) -> None:
        """A quorum of one elects itself, and writes in the new epoch only once that is on disk."""
        alone = ElectionState(epoch, self.node_id).to_bytes((self.node_id,), kraft_version=0)
        disk = self._runtime.disk
        await self._runtime.in_thread(quorum_state.write, disk, self.directory, alone)
        self.epoch = epoch
        now_ms = self._runtime.clock.wall_ms()
        batch = leader_change_batch(
            _leader_change(self.node_id), leader_epoch=epoch, timestamp_ms=now_ms
        )
        self._log.append(batch, read_header(batch), epoch, now_ms)
        # The record becomes durable with the first commit of the epoch, which is its only reader.
        self.pending = dataclasses.replace(
            self.pending, offset=self._log.end_offset - 1, epoch=epoch
        )
        self.image = self.pending

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the metadata log in {self.directory} failed ({self.failure}); the node stops",
            )

    def _append(self, records: Sequence[Message], divisible: bool) -> _Entry:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not records:
            entry = _Entry(self.pending.offset, self.pending, MetadataDelta(), waiter)
        else:
            # The image first: records that do not fit it must never reach the log.
            offset = self._log.end_offset + len(records) - 1
            image, delta = apply_records(self.pending, records, offset, self.epoch)
            parts = split([encode_record(record) for record in records])
            if len(parts) > 1 and not divisible:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{len(records)} metadata records are too many for one request: at most "
                    f"{BATCH_RECORDS_MAX} in {BATCH_BYTES_MAX} bytes; ask for less at a time",
                )
            self._write_batches(parts)
            self.pending = image
            entry = _Entry(offset, image, delta, waiter)
        self._queue.append(entry)
        if not self._committing:
            self._committing = True
            self._runtime.spawn(self._commit(), name="metadata-commit")
        return entry

    def _write_batches(self, parts: Sequence[Sequence[bytes]]) -> None:
        now_ms = self._runtime.clock.wall_ms()
        try:
            for part in parts:
                batch = build_batch([Record(i, now_ms, None, v, ()) for i, v in enumerate(part)])
                self._log.append(batch, read_header(batch), self.epoch, now_ms)
        except (OSError, LogDirFailure) as error:
            self._fail(error)
            self._check_usable()

    async def _commit(self) -> None:
        try:
            while self._queue and self.failure is None:
                covered = len(self._queue)
                await self._make_durable(self._queue[-1].offset)
                if self.failure is not None:
                    break
                for _ in range(covered):
                    self._publish(self._queue.popleft())
        except (OSError, LogDirFailure) as error:
            self._fail(error)
        finally:
            self._committing = False

    async def _make_durable(self, offset: int) -> None:
        if offset < self._log.recovery_point:
            return
        await self._runtime.in_thread(self._log.flush)
        if offset >= self._log.recovery_point:
            raise OSError(f"{self.directory} is not on disk up to offset {offset} after a flush")

    def _publish(self, entry: _Entry) -> None:
        self._room.release()
        self.image = entry.image
        if entry.delta:
            for subscriber in self._subscribers:
                try:
                    subscriber(entry.delta, entry.image)
                except Exception:
                    log.exception("a subscriber failed on metadata offset %d", entry.offset)
        if not entry.waiter.done():
            entry.waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self.pending = self.image
        log.critical("the metadata log in %s failed: %s; the node stops", self.directory, error)
        waiting, self._queue = self._queue, deque()
        for entry in waiting:
            self._room.release()
            if not entry.waiter.done():
                entry.waiter.set_exception(
                    KafkaError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"the metadata log could not be written: {error}",
                    )
                )
        self._on_failure(error)


def _leader_change(node_id: int) -> bytes:
    """Version 0 of the message: the one for a fixed set of voters."""
    alone = [Voter(voter_id=node_id)]
    message = LeaderChangeMessage(leader_id=node_id, voters=alone, granting_voters=alone)
    return b"".join(cast("list[bytes]", encoder(LeaderChangeMessage, 0)(message)))


def split(values: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Cut the records of one append into batches no larger than readers are promised."""
    if len(values) <= BATCH_RECORDS_MAX and sum(map(len, values)) <= BATCH_BYTES_MAX:
        return [values]
    parts: list[Sequence[bytes]] = []
    part: list[bytes] = []
    size = 0
    for value in values:
        if part and (len(part) == BATCH_RECORDS_MAX or size + len(value) > BATCH_BYTES_MAX):
            parts.append(part)
            part, size = [], 0
        part.append(value)
        size += len(value)
    parts.append(part)
    return parts


def metadata_topic_config(config: BrokerConfig) -> TopicConfig:
    """How the metadata log is cut into segments. Nothing of it is ever deleted by age or size."""
    overrides: dict[str, Any] = {
        "segment.bytes": config["metadata.log.segment.bytes"],
        "segment.ms": config["metadata.log.segment.ms"],
        "max.message.bytes": 2 * BATCH_BYTES_MAX,
        "cleanup.policy": "delete",
        "retention.ms": -1,
        "retention.bytes": -1,
    }
    return TopicConfig.build(config, {key: str(value) for key, value in overrides.items()})


def _load(
    runtime: Runtime, directory: str, cluster_id: str, config: TopicConfig, clean: bool
) -> tuple[Log, Replayed, int]:
    disk = runtime.disk
    storage = Log.open(
        disk,
        directory,
        METADATA_TOPIC,
        0,
        config,
        runtime.clock,
        clean=clean,
        topic_id=METADATA_TOPIC_ID,
    )
    replayed = replay(storage, MetadataImage(cluster_id=cluster_id))
    return storage, replayed, max(replayed.epoch, quorum_state.read_epoch(disk, directory))
