"""Groups: told by the broker that coordinates them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.metrics.exposition import GAUGE, Family, Sample, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.metrics.lag import GroupState, Position

_GROUP = "kafka_consumergroup_"


def group_families(groups: list[GroupState], positions: list[Position]) -> Families:
    yield Family(f"{_GROUP}members", GAUGE, "Members of the group", _members(groups))
    yield Family(
        "ottla_groups",
        GAUGE,
        "Groups, by kind and state",
        [
            (labels(kind=kind, state=state), number)
            for (kind, state), number in Counter((one.kind, one.state) for one in groups).items()
        ],
    )
    by_partition: list[tuple[str, str, Position]] = []
    for one in positions:
        topic, index = one.place
        exporter = labels(consumergroup=one.group, topic=topic, partition=index)
        by_partition.append((exporter, labels(group=one.group, topic=topic, partition=index), one))
        yield None
    yield Family(
        f"{_GROUP}current_offset",
        GAUGE,
        "The committed offset",
        ((text, one.offset) for text, _, one in by_partition),
    )
    yield Family(f"{_GROUP}lag", GAUGE, "Records behind the high watermark", _lags(by_partition))
    yield from _sums(positions)
    yield Family(
        f"{_GROUP}group_lag_seconds",
        GAUGE,
        "The age of the first record that the group has not consumed",
        ((text, one.lag_s) for _, text, one in by_partition if one.lag_s is not None),
    )
    yield Family(
        f"{_GROUP}group_max_lag_seconds",
        GAUGE,
        "The greatest of these of the group",
        _largest(positions),
    )
    yield Family(
        "ottla_consumergroup_lead",
        GAUGE,
        "Records that the group is ahead of the first one, which retention removes next",
        (
            (text, max(0, one.offset - one.ends.start))
            for text, _, one in by_partition
            if one.ends is not None
        ),
    )
    yield Family(
        "ottla_consumergroup_lead_seconds",
        GAUGE,
        "The time between the first record and the first one that the group has not consumed",
        ((text, one.lead_s) for text, _, one in by_partition if one.lead_s is not None),
    )


def lag_of(position: Position) -> int | None:
    return None if position.ends is None else max(0, position.ends.end - position.offset)


def _members(groups: list[GroupState]) -> Iterator[Sample]:
    for one in groups:
        yield labels(consumergroup=one.group), one.members


def _lags(by_partition: list[tuple[str, str, Position]]) -> Iterator[Sample]:
    for text, _, one in by_partition:
        if (lag := lag_of(one)) is not None:
            yield text, lag


def _sums(positions: list[Position]) -> Families:
    offsets: dict[tuple[str, str], int] = {}
    lags: dict[tuple[str, str], int] = {}
    for one in positions:
        key = one.group, one.place[0]
        offsets[key] = offsets.get(key, 0) + one.offset
        lags[key] = lags.get(key, 0) + (lag_of(one) or 0)
        yield None
    for name, text, sums in (
        ("current_offset_sum", "The committed offsets of the topic", offsets),
        ("lag_sum", "Records behind the high watermarks of the topic", lags),
    ):
        samples = ((labels(consumergroup=key[0], topic=key[1]), sums[key]) for key in sums)
        yield Family(_GROUP + name, GAUGE, text, list(samples))


def _largest(positions: list[Position]) -> list[Sample]:
    largest: dict[str, float] = {}
    for one in positions:
        if one.lag_s is not None:
            largest[one.group] = max(largest.get(one.group, 0.0), one.lag_s)
    return [(labels(group=group), seconds) for group, seconds in largest.items()]
