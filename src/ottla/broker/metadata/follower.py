"""Follows the log: committed batches are applied to the image as they come.

A node that does not lead learns of changes only here; one that leads does so before its own first
decision. The work is done in small pieces, so that a long log does not block the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.difference import difference
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.replay import (
    MetadataLogDamaged,
    TransactionFilter,
    load_snapshot,
    replay_in_steps,
)
from ottla.broker.quorum.quorum import Quorum
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.protocol.errors import KafkaError
from ottla.records.header import batches
from ottla.runtime.pace import at_once, in_slices
from ottla.runtime.runtime import Runtime

PIECE_BYTES: Final = 256 * 1024
"""The bytes of the log that are read in one turn. A larger batch is read as a whole."""
AT_ONCE_RECORDS_MAX: Final = 1_000
"""The most records that are replayed in one turn, which takes some milliseconds."""

Publish = Callable[[MetadataImage, MetadataDelta, int], object]
"""Called with an image, its changes, and the number of bytes of the log they took."""


class Follower:
    def __init__(
        self,
        runtime: Runtime,
        quorum: Quorum,
        image: MetadataImage,
        transactions: TransactionFilter,
        publish: Publish,
    ) -> None:
        self.image = image
        self.transactions = transactions
        self._runtime = runtime
        self._quorum = quorum
        self._publish = publish
        self._is_waiting = False
        self._stopped = True

    @property
    def next_offset(self) -> int:
        return self.image.offset + 1

    def resume(self, image: MetadataImage) -> None:
        """Continue from this image, because this node has stopped leading."""
        self.image = image
        self._stopped = False
        self.advance()

    def stop(self) -> None:
        """Stop, because this node now writes the log itself."""
        self._stopped = True

    def advance(self) -> None:
        """Apply committed records that are not in the image yet."""
        if self._stopped or self._is_waiting or self.next_offset >= self._quorum.high_watermark:
            return
        try:
            if self.next_offset < self._quorum.log.start_offset:
                self._is_waiting = True
                self._runtime.spawn(self._take_snapshot(), name="load-metadata-snapshot")
            else:
                self._take_piece()
        except (MetadataLogDamaged, KafkaError, OSError) as error:
            self._quorum.fail(error)
            return
        if not self._is_waiting and self.next_offset < self._quorum.high_watermark:
            self._is_waiting = True
            self._runtime.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        self.advance()

    def _take_piece(self) -> None:
        quorum = self._quorum
        storage = quorum.log.storage
        part = storage.read(self.next_offset, PIECE_BYTES, quorum.high_watermark)
        if part is None:
            raise MetadataLogDamaged(
                f"{storage.directory} has nothing at offset {self.next_offset}"
            )
        data = part.read()
        found = list(batches(data))
        steps = replay_in_steps(found, self.image, self.transactions, storage.directory)
        if sum(header.record_count for header, _ in found) <= AT_ONCE_RECORDS_MAX:
            self._take(*at_once(steps), len(data))
        else:
            self._is_waiting = True
            self._runtime.spawn(self._take_large(steps, len(data)), name="replay-metadata")

    async def _take_large(
        self, steps: Generator[None, None, tuple[MetadataImage, MetadataDelta]], size: int
    ) -> None:
        """Replay a decision of thousands of partitions. It is committed, and only this follower
        changes its image, so the records still fit when the replay ends."""
        try:
            image, delta = await in_slices(self._runtime, steps)
        except (MetadataLogDamaged, KafkaError, OSError) as error:
            self._quorum.fail(error)
            return
        self._is_waiting = False
        if not self._stopped:
            self._take(image, delta, size)
        self.advance()

    async def _take_snapshot(self) -> None:
        """Load a snapshot, because the log was replaced by it, or was deleted before it."""
        snapshot = self._quorum.log.latest_snapshot
        assert snapshot is not None, "a log that begins later begins at a snapshot"
        try:
            image = await self._runtime.in_thread(self._load, snapshot)
        except (MetadataLogDamaged, OSError) as error:
            self._quorum.fail(error)
            return
        self._is_waiting = False
        if self.next_offset < snapshot.offset and not self._stopped:
            self.transactions = TransactionFilter()
            self._take(image, difference(self.image, image), 0)
        self.advance()

    def _load(self, snapshot: OffsetAndEpoch) -> MetadataImage:
        directory = self._quorum.log.directory
        return load_snapshot(self._runtime.disk, directory, snapshot, self.image.cluster_id)

    def _take(self, image: MetadataImage, delta: MetadataDelta, size: int) -> None:
        self.image = image
        self._publish(image, delta, size)
