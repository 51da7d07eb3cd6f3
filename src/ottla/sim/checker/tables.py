"""Compacted topics: the last record of each key stays, and no aborted record replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.history import History, Outcome, Sending

Place = tuple[Partition, str]
"""A key of a partition."""


def lost_keys(history: History) -> Iterator[Anomaly]:
    """Find keys whose last record is missing. Tombstones count as records: in the simulation they
    are kept for longer than a run lasts."""
    names = {(one.partition, one.value): one for one in history.sendings}
    there: dict[Place, int] = {}
    for partition, log in history.logs.items():
        for offset, value in log.committed:
            sending = names.get((partition, value))
            if sending is not None and sending.key is not None:
                there[partition, sending.key] = offset
    for place, sending, offset in _newest(history, names):
        found = there.get(place, -1)
        if place[0] in history.logs and found < offset:
            instead = "nothing of its key" if found < 0 else f"as its key's last the one at {found}"
            yield Anomaly(
                Kind.LOST_KEY,
                f"{place[0]} @{offset}",
                f"{sending.value} of {place[1]} is gone, there is {instead}",
            )


def _newest(
    history: History, names: dict[tuple[Partition, str], Sending]
) -> Iterable[tuple[Place, Sending, int]]:
    """Return the last record of each key that is certain to stay in the log."""
    newest: dict[Place, tuple[Place, Sending, int]] = {}
    for sending, offset in _certain(history, names):
        if sending.key is not None:
            place = sending.partition, sending.key
            if place not in newest or newest[place][2] < offset:
                newest[place] = (place, sending, offset)
    return newest.values()


def _certain(
    history: History, names: dict[tuple[Partition, str], Sending]
) -> Iterator[tuple[Sending, int]]:
    """Yield records that were acknowledged (and committed, if in a transaction) or read by a reader
    of committed records."""
    for sending in history.sendings:
        transaction = sending.transaction
        is_committed = transaction is None or transaction.outcome is Outcome.OK
        if sending.is_promised and sending.offset is not None and is_committed:
            yield sending, sending.offset
    for reader in history.readers:
        for partition, offset, value, _ in reader.seen if reader.committed else ():
            if (partition, value) in names:
                yield names[partition, value], offset


def compacted_count(history: History) -> int:
    """Count the promised records that compaction has removed."""
    there = {(partition, value) for partition, log in history.logs.items() for _, value in log[2]}
    return sum(
        one.is_promised and (one.partition, one.value) not in there for one in history.sendings
    )
