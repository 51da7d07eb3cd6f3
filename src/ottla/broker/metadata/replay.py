"""Builds an image from snapshot and log, before a node serves requests."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from ottla.broker.metadata.batches import decode_batch
from ottla.broker.metadata.changes import ImageChange, MetadataInconsistent
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.quorum import snapshot_files
from ottla.broker.quorum.log import QuorumLog
from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import Message
from ottla.records.errors import InvalidBatch
from ottla.records.header import BatchHeader
from ottla.records.reader import check_crc
from ottla.runtime.disk import Disk
from ottla.runtime.pace import at_once

Batches = Iterable[tuple[BatchHeader, memoryview]]


class MetadataLogDamaged(Exception):
    """The metadata log cannot be read: starting would mean serving a wrong state."""


class TransactionFilter:
    """Holds records back between the begin and the end of a metadata transaction.

    Ottla writes none, but a log begun by another controller may have some. A transaction without an
    end has no effect.
    """

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def admit(self, records: Iterable[Message]) -> Iterator[Message]:
        for record in records:
            kind = record.__class__.__name__
            if kind == "BeginTransactionRecord":
                self._held = []
            elif kind == "EndTransactionRecord":
                yield from self._held or ()
                self._held = None
            elif kind == "AbortTransactionRecord":
                self._held = None
            elif self._held is not None:
                self._held.append(record)
            else:
                yield record


def replay(
    batches: Batches, base: MetadataImage, transactions: TransactionFilter, where: str
) -> tuple[MetadataImage, MetadataDelta]:
    """Return the image after these batches of the log, and what they changed."""
    return at_once(replay_in_steps(batches, base, transactions, where))


def replay_in_steps(
    batches: Batches, base: MetadataImage, transactions: TransactionFilter, where: str
) -> Generator[None, None, tuple[MetadataImage, MetadataDelta]]:
    """Like `replay`, with a pause after each record. The result is only seen when all batches have
    been replayed."""
    change = ImageChange(base)
    offset, epoch = base.offset, base.epoch
    for header, batch in batches:
        if not header.is_control:
            yield from _apply(change, transactions, header, batch, where)
        offset, epoch = header.last_offset, header.partition_leader_epoch
    return change.finish(offset, epoch)


def load_snapshot(
    disk: Disk, directory: str, snapshot: OffsetAndEpoch, cluster_id: str
) -> MetadataImage:
    """Return the image in a snapshot."""
    path = snapshot_files.path_of(directory, snapshot)
    change = ImageChange(MetadataImage(cluster_id=cluster_id))
    transactions = TransactionFilter()
    try:
        for header, batch in snapshot_files.read_batches(disk, path):
            if not header.is_control:
                for _ in _apply(change, transactions, header, batch, path):
                    pass
    except snapshot_files.SnapshotDamaged as error:
        raise MetadataLogDamaged(
            f"{error}. Restore it from a copy, or move it away: the node then starts from the log, "
            "if that still has all records. A controller among others may move all of "
            f"{directory} away while the others have a leader, and fetches it from them"
        ) from error
    return change.finish(snapshot.offset - 1, snapshot.epoch)[0]


def load_log(
    quorum_log: QuorumLog, base: MetadataImage, transactions: TransactionFilter
) -> MetadataImage:
    """Return the image after everything in the log after the base, committed or not."""
    rest = quorum_log.batches_from(base.offset + 1, quorum_log.end.offset)
    return replay(rest, base, transactions, quorum_log.directory)[0]


def _apply(
    change: ImageChange,
    transactions: TransactionFilter,
    header: BatchHeader,
    batch: memoryview,
    where: str,
) -> Iterator[None]:
    try:
        check_crc(header, batch)
        for record in transactions.admit(decode_batch(batch)):
            change.apply_one(record)
            yield
    except (MalformedMessage, InvalidBatch, MetadataInconsistent) as error:
        raise MetadataLogDamaged(
            f"{where}: the batch at offset {header.base_offset} is damaged: {error}"
        ) from error
