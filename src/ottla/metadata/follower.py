"""Following the log: committed batches become the next image as they come.

A node that does not lead learns of changes only here, and one that leads does before its own first
decision. Work is done in small pieces, so that a long log does not hold up the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.replay import MetadataLogDamaged, TransactionFilter, load_snapshot, replay
from ottla.protocol.errors import KafkaError
from ottla.quorum.quorum import Quorum
from ottla.raft.ids import OffsetAndEpoch
from ottla.records.header import batches
from ottla.runtime.runtime import Runtime

PIECE_BYTES: Final = 256 * 1024
"""Of the log, in one go: some milliseconds of work."""

Publish = Callable[[MetadataImage, MetadataDelta, int], object]
"""Told an image, what is new in it, and how many bytes of the log that took."""


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
        """Go on from this image: whoever led has stopped."""
        self.image = image
        self._stopped = False
        self.advance()

    def stop(self) -> None:
        """This node writes the log itself now."""
        self._stopped = True

    def advance(self) -> None:
        """Something may be committed that is not in the image."""
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
        image, delta = replay(batches(data), self.image, self.transactions, storage.directory)
        self._take(image, delta, len(data))

    async def _take_snapshot(self) -> None:
        """The log was replaced by a snapshot, or cleaned behind one."""
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
