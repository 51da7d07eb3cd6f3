"""Checks of groups: no record is skipped, and copies are exact."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.values import TopicPartition as Partition
from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.history import History


def unread_by_groups(history: History) -> Iterator[Anomaly]:
    """Find records before a group's committed offset that no member was given. Members commit only
    what they were given."""
    given: dict[tuple[str, Partition], set[int]] = {}
    committed: dict[str, bool] = {}
    for reader in history.readers:
        if reader.group is not None:
            committed[reader.group] = reader.committed
            for partition, offset, _, _ in reader.seen:
                given.setdefault((reader.group, partition), set()).add(offset)
    for (group, partition), (start, end) in history.group_ends.items():
        if partition not in history.logs:
            continue
        places = history.unpassable(partition, committed=committed.get(group, False))
        seen = given.get((group, partition), set())
        missed = [offset for offset in places if start <= offset < end and offset not in seen]
        if missed:
            text = f"committed {end}, nobody was given {missed[:5]}"
            yield Anomaly(Kind.UNREAD_BY_GROUP, f"{partition} of {group}", text)


def bad_copies(history: History) -> Iterator[Anomaly]:
    for source, target in history.copies.items():
        for partition, log in history.logs.items():
            if partition.topic != source:
                continue
            copy = history.logs.get(Partition(target, partition.partition))
            want = [value for _, value in log.committed]
            have = [value for _, value in copy.committed] if copy is not None else []
            if want != have:
                yield Anomaly(Kind.BAD_COPY, f"{partition} in {target}", _difference(want, have))


def _difference(want: list[str], have: list[str]) -> str:
    if missing := [value for value in want if value not in set(have)]:
        return f"{len(missing)} missing, first {missing[0]}"
    if doubled := [value for value in set(have) if have.count(value) > want.count(value)]:
        return f"{len(doubled)} too often, such as {min(doubled)}"
    at = next(index for index, pair in enumerate(zip(want, have, strict=True)) if len({*pair}) > 1)
    return f"out of order from record {at}: {have[at]} instead of {want[at]}"
