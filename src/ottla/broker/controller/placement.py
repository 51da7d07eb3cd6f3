"""Places the replicas of new partitions: striped over racks and brokers, from a random start.

Each partition starts one rack and one broker further than the one before, so that leaders spread
evenly. Its replicas visit every rack before they visit one twice, so that losing a rack loses as
few of them as possible. Fenced brokers are used only when there are not enough others, and never
lead. After as many partitions as there are brokers to lead, everything is shuffled: otherwise the
brokers that share one partition would share all of them, and losing one would burden only those.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    id: int
    rack: str | None
    fenced: bool


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if broker.is_placeable
    ]


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of `partitions` new partitions, each with its leader first.

    Raises `INVALID_REPLICATION_FACTOR` if there are too few brokers, or none that may lead.
    """
    racks = _by_rack(brokers)
    total = sum(len(rack.active) + len(rack.fenced) for rack in racks)
    active = sum(len(rack.active) for rack in racks)
    _check(replication_factor, total, active)
    for rack in racks:
        rack.turn(random)
    first = random.randrange(len(racks))
    only = racks[0] if len(racks) == 1 else None
    placed: list[tuple[int, ...]] = []
    for number in range(partitions):
        if number % active == 0 and number > 0 and active > 1:
            random.shuffle(racks)
            for rack in racks:
                rack.shuffle(random)
        if only is not None:
            placed.append(tuple(only.in_turn(replication_factor)))
        else:
            placed.append(_place_one(racks, first + number, replication_factor))
    return placed


class _Rack:
    def __init__(self) -> None:
        self.active: list[int] = []
        self.fenced: list[int] = []
        self.offset = 0

    def turn(self, random: Random) -> None:
        self.active.sort()
        self.fenced.sort()
        self.offset = random.randrange(max(1, len(self.active)))

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.active)
        random.shuffle(self.fenced)

    def in_turn(self, count: int) -> list[int]:
        """Return `count` brokers, or all, the preferred ones first; each call begins one broker
        further."""
        order = _rotated(self.active, self.offset, count)
        if len(order) < count:
            order += _rotated(self.fenced, self.offset, count - len(order))
        self.offset += 1
        return order


def _rotated(brokers: list[int], by: int, count: int) -> list[int]:
    """Return the first `count` only: a rack may have hundreds of brokers, of which a partition
    needs three."""
    if not brokers:
        return []
    by %= len(brokers)
    order = brokers[by : by + count]
    if len(order) < count:
        order += brokers[: min(by, count - len(order))]
    return order


def _by_rack(brokers: Iterable[UsableBroker]) -> list[_Rack]:
    racks: dict[str | None, _Rack] = {}
    for broker in brokers:
        rack = racks.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.fenced else rack.active).append(broker.id)
    return [racks[name] for name in sorted(racks, key=lambda name: name or "")]


def _place_one(racks: list[_Rack], start: int, replication_factor: int) -> tuple[int, ...]:
    order = [racks[(start + i) % len(racks)] for i in range(len(racks))]
    # The leader comes from the first rack with an active broker, so that rack goes to the front.
    leading = next(i for i, rack in enumerate(order) if rack.active)
    order.insert(0, order.pop(leading))
    queues = [rack.in_turn(replication_factor) for rack in order]
    replicas: list[int] = []
    for lap in range(max(map(len, queues))):
        replicas += [queue[lap] for queue in queues if lap < len(queue)]
        if len(replicas) >= replication_factor:
            break
    return tuple(replicas[:replication_factor])


def _check(replication_factor: int, total: int, active: int) -> None:
    if replication_factor <= 0:
        problem = "the replication factor must be larger than 0"
    elif active == 0:
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > total:
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {total} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {problem}",
    )
