"""Order: a reader reads a partition in order, and a producer's records lie in the order sent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.history import History, Outcome, Reader, Sending


def disordered_polls(history: History) -> Iterator[Anomaly]:
    places = {
        (partition, committed): history.unpassable(partition, committed=committed)
        for partition in history.logs
        for committed in (False, True)
    }
    for reader in history.readers:
        yield from _steps(reader, places)


def _steps(reader: Reader, places: dict[tuple[Partition, bool], list[int]]) -> Iterator[Anomaly]:
    last: dict[Partition, int] = {}
    for partition, offset, value, _ in reader.seen:
        before = last.get(partition)
        last[partition] = offset
        if before is None:
            continue
        where = f"{partition} by {reader.name}"
        if offset <= before:
            yield Anomaly(Kind.NONMONOTONIC_POLL, where, f"{offset} ({value}) after {before}")
            continue
        offsets = places.get((partition, reader.committed), [])
        if passed := offsets[bisect_right(offsets, before) : bisect_left(offsets, offset)]:
            text = f"from {before} to {offset} ({value}), past {passed[:3]}"
            yield Anomaly(Kind.SKIPPING_POLL, where, text)


def disordered_sends(history: History) -> Iterator[Anomaly]:
    """Find records that do not lie in the order their producer sent them, by the first offset of
    each.

    Some records are not checked. A record that was sent without idempotence and has no known
    outcome may arrive late, from a connection that was given up. A record that was sent with acks
    below all has no promised order. Without idempotence a record may be there twice, and where the
    start of the log was deleted the first copy may be gone.
    """
    for partition, log in history.logs.items():
        places: dict[str, int] = {}
        for offset, value in log.records:
            places.setdefault(value, offset)
        lanes: dict[str, list[tuple[int, str]]] = {}
        for sending in history.sendings:
            found_first = sending.once or not log.start
            if sending.partition == partition and found_first and _keeps_order(sending):
                place = places.get(sending.value)
                if place is not None:
                    lanes.setdefault(sending.producer, []).append((place, sending.value))
        for producer, lane in lanes.items():
            yield from _disorder(f"{partition} of {producer}", lane)


def _keeps_order(sending: Sending) -> bool:
    return sending.durable and (sending.once or sending.outcome is Outcome.OK)


def _disorder(where: str, lane: list[tuple[int, str]]) -> Iterator[Anomaly]:
    offsets = sorted(offset for offset, _ in lane)
    for (before, first), (after, second) in pairwise(lane):
        if after < before:
            text = f"{second} is at {after}, {first}, sent before it, at {before}"
            yield Anomaly(Kind.NONMONOTONIC_SEND, where, text)
        elif between := offsets[bisect_right(offsets, before) : bisect_left(offsets, after)]:
            text = f"{first} is at {before}, {second}, sent next, at {after}: {between[:3]} between"
            yield Anomaly(Kind.SKIPPING_SEND, where, text)
