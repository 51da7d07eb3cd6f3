"""Placement: promised records are there, records that are there were sent, once, at one offset."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.history import History, Log, Outcome


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """Find offsets at which two different records were seen. Answers to acks=1 do not count: the
    record they name may have been replaced since."""
    known: dict[tuple[Partition, int], str] = {}
    for partition, offset, value, how in _placements(history):
        before = known.setdefault((partition, offset), value)
        if before != value:
            yield Anomaly(
                Kind.INCONSISTENT_OFFSETS,
                f"{partition} @{offset}",
                f"{value} was {how} where {before} was before",
            )


def _placements(history: History) -> Iterator[tuple[Partition, int, str, str]]:
    for sending in history.sendings:
        if sending.is_promised and sending.offset is not None:
            yield sending.partition, sending.offset, sending.value, "acknowledged"
    for reader in history.readers:
        for partition, offset, value, _ in reader.seen:
            yield partition, offset, value, f"read by {reader.name}"
    for partition, log in history.logs.items():
        for offset, value in (*log.records, *log.committed):
            yield partition, offset, value, "found in the end"


def lost_writes(history: History) -> Iterator[Anomaly]:
    held = {
        partition: {value for _, value in log.records} for partition, log in history.logs.items()
    }
    for sending in history.sendings:
        log = history.logs.get(sending.partition)
        if log is None or not sending.is_promised or _was_deleted(log, sending.offset):
            continue
        if sending.value not in held[sending.partition]:
            yield Anomaly(
                Kind.LOST_WRITE,
                f"{sending.partition} @{sending.offset}",
                f"{sending.value} was acknowledged and is not there (the log ends at {log.end})",
            )
    yield from _lost_reads(history, held)
    yield from _late_starts(history)


def _late_starts(history: History) -> Iterator[Anomaly]:
    """Find logs that start later than any client asked for."""
    for partition, log in history.logs.items():
        if log.start > (asked := history.deleted.get(partition, 0)):
            text = f"the log starts at {log.start}, {asked} was asked for"
            yield Anomaly(Kind.LOST_WRITE, str(partition), text)


def _lost_reads(history: History, held: dict[Partition, set[str]]) -> Iterator[Anomaly]:
    for reader in history.readers:
        for partition, offset, value, _ in reader.seen:
            log = history.logs.get(partition)
            if log is None or _was_deleted(log, offset) or value in held[partition]:
                continue
            yield Anomaly(
                Kind.LOST_WRITE,
                f"{partition} @{offset}",
                f"{value} was read by {reader.name} and is not there (the log ends at {log.end})",
            )


def _was_deleted(log: Log, offset: int | None) -> bool:
    return offset is not None and offset < log.start


def duplicates(history: History) -> Iterator[Anomaly]:
    once = _promised_once(history)
    for partition, log in history.logs.items():
        seen: dict[str, int] = {}
        for offset, value in log.records:
            before = seen.setdefault(value, offset)
            if before != offset and (partition, value) in once:
                yield Anomaly(
                    Kind.DUPLICATE, str(partition), f"{value} is at {before} and {offset}"
                )


def _promised_once(history: History) -> set[tuple[Partition, str]]:
    """Return the records that may be in the log only once.

    Records that a producer sent after a record it gave up do not count. When the broker misses the
    given-up record, the producer sends the rest again in a new epoch. If the first request is only
    late, on a connection that was given up too, the broker takes both before it learns of the
    epoch. Kafka behaves the same way.
    """
    once: set[tuple[Partition, str]] = set()
    with_hole: set[tuple[str, Partition]] = set()
    for one in history.sendings:
        lane = one.producer, one.partition
        if one.once and lane not in with_hole:
            once.add((one.partition, one.value))
        if one.outcome is Outcome.UNKNOWN:
            with_hole.add(lane)
    return once


def phantoms(history: History) -> Iterator[Anomaly]:
    sent = {(sending.partition, sending.value) for sending in history.sendings}
    written = {topic for topic, _ in {sending.partition for sending in history.sendings}}
    for partition, offset, value, how in _placements(history):
        if partition.topic in written and (partition, value) not in sent:
            yield Anomaly(Kind.PHANTOM, f"{partition} @{offset}", f"{value} was {how}, never sent")
