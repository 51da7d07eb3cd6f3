"""Reading the metadata log from its start: what the node knows before it serves anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.metadata.changes import ImageChange, MetadataInconsistent
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import decode_record
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import Message
from ottla.records.errors import InvalidBatch
from ottla.records.header import batches
from ottla.records.reader import read_records
from ottla.storage.log import Log

READ_BYTES = 8 * 1024 * 1024


class MetadataLogDamaged(Exception):
    """The metadata log cannot be understood: starting would mean serving a wrong state."""


class Replayed(NamedTuple):
    image: MetadataImage
    epoch: int
    """The highest leader epoch in the log; 0 in an empty one."""


def replay(log: Log, base: MetadataImage) -> Replayed:
    """The image that all records of `log` add up to."""
    if log.log_start_offset > 0:
        raise MetadataLogDamaged(
            f"{log.directory} begins at offset {log.log_start_offset}: its first part is in a "
            "snapshot, which this version cannot read"
        )
    change = ImageChange(base)
    transactions = TransactionFilter()
    offset = 0
    epoch = 0
    while offset < log.end_offset:
        part = log.read(offset, READ_BYTES, log.end_offset)
        if part is None:
            raise MetadataLogDamaged(f"{log.directory} has nothing to read at offset {offset}")
        for header, batch in batches(part.read()):
            epoch = max(epoch, header.partition_leader_epoch)
            try:
                if not header.is_control:
                    records = [decode_record(r.value or b"") for r in read_records(batch)]
                    change.apply(transactions.admit(records))
            except (MalformedMessage, InvalidBatch, MetadataInconsistent) as error:
                raise MetadataLogDamaged(
                    f"{log.directory}: the batch at offset {header.base_offset} is damaged: {error}"
                ) from error
            offset = header.next_offset
    image, _ = change.finish(offset - 1, epoch)
    return Replayed(image, epoch)


class TransactionFilter:
    """Holds records back between the begin and the end of a metadata transaction.

    Ottla writes none, but a log begun by another controller may hold some. A transaction without
    an end never happened.
    """

    def __init__(self) -> None:
        self._held: list[Message] | None = None

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
