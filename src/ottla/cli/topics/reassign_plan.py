"""Plans where replicas should be: it moves as few as possible and balances the brokers.

Replicas that are on the wanted brokers already stay; the others go to the brokers with the fewest,
on another rack if there is one. Then brokers with more replicas than others hand some over, so that
a new broker gets its share. Last, leaders are spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.values import TopicPartition

Placement = dict[TopicPartition, list[int]]
PLAN_VERSION = 1


class BadPlan(ValueError):
    """A plan that cannot be made or read, with the reason."""


def make_plan(
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> Placement:
    """Make a plan. `current`: replicas, the preferred leader first; `brokers`: the brokers to use,
    with their racks."""
    wanted = {one: replication_factor or len(replicas) for one, replicas in current.items()}
    most = max(wanted.values(), default=0)
    if most > len(brokers):
        raise BadPlan(f"{most} replicas need as many brokers, and {len(brokers)} are named")
    planning = _Planning(brokers)
    for one, replicas in current.items():
        planning.keep(one, [b for b in replicas if b in brokers][: wanted[one]])
    for one, count in wanted.items():
        planning.fill(one, count)
    planning.level()
    return {one: planning.led(one, current[one]) for one in current}


class _Planning:
    def __init__(self, brokers: Mapping[int, str | None]) -> None:
        self._racks = brokers
        self._load: Counter[int] = Counter(dict.fromkeys(brokers, 0))
        self._leaders: Counter[int] = Counter()
        self._placed: Placement = {}

    def keep(self, one: TopicPartition, replicas: list[int]) -> None:
        self._placed[one] = replicas
        self._load.update(replicas)

    def fill(self, one: TopicPartition, count: int) -> None:
        replicas = self._placed[one]
        while len(replicas) < count:
            free = (broker for broker in self._racks if broker not in replicas)
            chosen = min(free, key=lambda b: (self._crowding(replicas, b), self._load[b], b))
            replicas.append(chosen)
            self._load[chosen] += 1

    def _crowding(self, replicas: Sequence[int], broker: int) -> int:
        """Return how many of these replicas are on the broker's rack."""
        rack = self._racks[broker]
        return 0 if rack is None else sum(self._racks[b] == rack for b in replicas)

    def level(self) -> None:
        """Balance the brokers. Each move takes a replica from a broker that has at least two more
        than the one it goes to, so this ends."""
        while any(self._hand_over(fullest) for fullest, _ in self._load.most_common()):
            pass

    def _hand_over(self, giver: int) -> bool:
        for taker in sorted(self._load, key=lambda b: (self._load[b], b)):
            if self._load[giver] - self._load[taker] < 2:
                return False
            for replicas in self._placed.values():
                if self._may_move(replicas, giver, taker):
                    replicas[replicas.index(giver)] = taker
                    self._load[giver] -= 1
                    self._load[taker] += 1
                    return True
        return False

    def _may_move(self, replicas: Sequence[int], giver: int, taker: int) -> bool:
        if giver not in replicas or taker in replicas:
            return False
        others = [broker for broker in replicas if broker != giver]
        return self._crowding(others, taker) <= self._crowding(others, giver)

    def led(self, one: TopicPartition, before: Sequence[int]) -> list[int]:
        """Return the replicas, leader first: the present one, unless others lead fewer."""
        replicas = self._placed[one]
        leader = min(replicas, key=lambda b: (self._leaders[b], b != before[0], replicas.index(b)))
        self._leaders[leader] += 1
        return [leader, *(broker for broker in replicas if broker != leader)]


def changes(
    current: Mapping[TopicPartition, Sequence[int]], plan: Mapping[TopicPartition, Sequence[int]]
) -> Placement:
    """Return the part of a plan that differs from the current placement."""
    return {
        one: list(replicas)
        for one, replicas in plan.items()
        if list(replicas) != list(current.get(one, ()))
    }


def as_json(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Return the plan in the format of Kafka's kafka-reassign-partitions."""
    return {
        "version": PLAN_VERSION,
        "partitions": [
            {"topic": one.topic, "partition": one.partition, "replicas": list(replicas)}
            for one, replicas in sorted(plan.items())
        ],
    }


def from_json(value: Any) -> Placement:
    try:
        plan = {
            TopicPartition(str(entry["topic"]), int(entry["partition"])): [
                int(broker) for broker in entry["replicas"]
            ]
            for entry in value["partitions"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise BadPlan(
            'a plan is JSON like {"version": 1, "partitions": [{"topic": "t", "partition": 0, '
            f'"replicas": [1, 2]}}]}}; this one is not ({error})'
        ) from error
    if not plan:
        raise BadPlan("the plan names no partitions")
    return plan
