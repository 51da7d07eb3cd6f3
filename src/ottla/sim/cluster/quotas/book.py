"""What clients under quotas got from whom, and when; raises `Violation` if it was too much.

A client knows when it asked and when it got the answer: the broker served it in between. So only
what lies within a time wholly is counted, and delays on the network cannot make it too much.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.metadata.security_image import CLIENT_ID, IP, USER, QuotaEntity, QuotaKey, Quotas
from ottla.sim.history import Violation

if TYPE_CHECKING:
    from ottla.broker.metadata.image import TopicImage
    from ottla.sim.cluster.fleet import Fleet

WINDOWS: Final = 11
"""Kafka's default: eleven windows of a second, for bytes, connections and mutations."""
SPAN_S: Final = 11.0
BOUND_S: Final = 12.0
"""The most of a rate that may be used within eleven seconds: windows begin with an event, so the
oldest that counts may have begun a second before."""
UNSURE_S: Final = 0.6
"""How long before it is seen here a change of quotas may count already."""
KEPT_MAX: Final = 2_000

Life = str
"""A process of a node: budgets live in it."""


class Served(NamedTuple):
    sent_s: float
    received_s: float
    amount: float
    connection: object = None


class Limit(NamedTuple):
    entity: QuotaEntity
    rate: float


class _Known(NamedTuple):
    since_s: float
    quotas: Mapping[QuotaEntity, Quotas]


class QuotaBook:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._now = fleet.world.loop.time
        self._known: dict[Life, list[_Known]] = {}
        """The quotas that a node had, by the time at which they were seen first."""
        self._served: dict[tuple[object, ...], deque[Served]] = {}
        self.throttled = 0
        """How many answers told a client to wait."""

    def life_of(self, node_id: int) -> Life | None:
        runtime = self._fleet.world.machine(self._fleet.hosts[node_id]).runtime
        return None if runtime is None else str(runtime.process)

    def look(self) -> None:
        """Note the quotas that all nodes know now."""
        for node_id, node in self._fleet.running():
            life = self.life_of(node_id)
            if life is None or not node.has_metadata:
                continue
            quotas = node.metadata.image.client_quotas
            known = self._known.setdefault(life, [])
            if not known or known[-1].quotas is not quotas:
                known.append(_Known(self._now(), quotas))

    @property
    def epoch(self) -> int:
        """The newest epoch of the quorum: budgets for changes live as long as its leader."""
        return max(
            (node.metadata.quorum.epoch for _, node in self._fleet.running() if node.has_metadata),
            default=-1,
        )

    def leads(self, node_id: int, topic: str, index: int) -> bool:
        """True if the node knows itself as the leader of the partition."""
        found = self._topic(node_id, topic)
        return found is not None and found.partitions[index].leader == node_id

    def partitions_of(self, node_id: int, topic: str) -> int:
        """Return how many partitions the topic has, as far as the node knows."""
        found = self._topic(node_id, topic)
        return 0 if found is None else len(found.partitions)

    def _topic(self, node_id: int, topic: str) -> TopicImage | None:
        node = dict(self._fleet.running()).get(node_id)
        if node is None or not node.has_metadata:
            return None
        return node.metadata.image.topics.get(topic)

    def none_left(self) -> bool:
        return not any(
            node.metadata.image.client_quotas
            for _, node in self._fleet.running()
            if node.has_metadata
        )

    def is_limited(self, life: Life, client_id: str, key: QuotaKey) -> bool:
        known = self._known.get(life)
        return known is not None and _limit(known[-1].quotas, client_id, key) is not None

    # What clients got.

    def answered(
        self, life: Life, client_id: str, key: QuotaKey, served: Served, throttle_ms: int
    ) -> None:
        """Check the answer of a broker about bytes or connections."""
        self.throttled += throttle_ms > 0
        limits = self._limits([life], client_id, key, served.sent_s, served.received_s)
        if throttle_ms and all(limit is None for limit in limits):
            raise Violation(f"{client_id} was throttled for {throttle_ms} ms without a {key}")
        found = self._add((life, client_id, key), served)
        begin_s = served.received_s - SPAN_S
        limit = self._largest(self._limits([life], client_id, key, begin_s, served.received_s))
        if limit is None:
            return
        inside = [one for one in found if one.sent_s >= begin_s]
        most = limit * BOUND_S
        if key is QuotaKey.PRODUCER_BYTE_RATE:
            most += _overshoot(limit, inside)
        total = sum(one.amount for one in inside)
        if total > most:
            raise Violation(
                f"{client_id} got {total:.0f} from {life} in {SPAN_S} s, with a {key} of {limit}"
            )

    def changed(self, client_id: str, epoch: int, served: Served) -> None:
        """Check a change of as many partitions that the controller of this epoch made."""
        if epoch != self.epoch:
            return
        found = self._add((epoch, client_id), served)
        key = QuotaKey.CONTROLLER_MUTATION_RATE
        for first in found:
            begin_s, end_s = first.sent_s, served.received_s
            limit = self._largest(self._limits(self._known, client_id, key, begin_s, end_s))
            if limit is None:
                continue
            inside = [one.amount for one in found if one.sent_s >= begin_s]
            if sum(inside) > limit * (WINDOWS + end_s - begin_s) + max(inside):
                raise Violation(
                    f"{client_id} changed {sum(inside):.0f} partitions in "
                    f"{end_s - begin_s:.1f} s, with a {key} of {limit}"
                )

    def _add(self, place: tuple[object, ...], served: Served) -> deque[Served]:
        found = self._served.setdefault(place, deque(maxlen=KEPT_MAX))
        found.append(served)
        while found[0].sent_s < served.sent_s - 2 * SPAN_S:
            found.popleft()
        return found

    def _limits(
        self, lives: Iterable[Life], client_id: str, key: QuotaKey, begin_s: float, end_s: float
    ) -> list[Limit | None]:
        """Return all limits that may have counted within this time."""
        found: list[Limit | None] = []
        for life in lives:
            known = self._known.get(life, [])
            for index, one in enumerate(known):
                until_s = known[index + 1].since_s if index + 1 < len(known) else end_s
                if one.since_s - UNSURE_S <= end_s and until_s + UNSURE_S >= begin_s:
                    found.append(_limit(one.quotas, client_id, key))
            if known and known[0].since_s > begin_s:
                found.append(None)
        return found

    def _largest(self, limits: list[Limit | None]) -> float | None:
        """Return the largest rate; None if at any time there was none, or that of another entity:
        that is another budget, of which nothing was used yet."""
        known = [limit for limit in limits if limit is not None]
        if len(known) < len(limits) or len({limit.entity for limit in known}) != 1:
            return None
        return max(limit.rate for limit in known)


def _overshoot(limit: float, served: list[Served]) -> float:
    """Return how much more than its rate a producer may have written, by Kafka's rule.

    A request is served before it is charged. The mute is as long as the rate takes for what is too
    much, then the next one is served: but in the first windows, what was too much before still is.
    So the mutes of `n` requests of `size` take `size * (1 + 2 + ... + n) / limit`, on each
    connection beside the others. They also end with the connection.
    """
    size = max((one.amount for one in served), default=0.0)
    connections = len({one.connection for one in served})
    return math.sqrt(2 * SPAN_S * connections * limit * size) + connections * size


def _limit(quotas: Mapping[QuotaEntity, Quotas], client_id: str, key: QuotaKey) -> Limit | None:
    """Return what limits the client, of the kinds of entities that are used here."""
    entities: tuple[QuotaEntity, ...] = (
        ((CLIENT_ID, client_id), (USER, None)),
        ((CLIENT_ID, client_id),),
    )
    if key is QuotaKey.CONNECTION_CREATION_RATE:
        entities = (((IP, None),),)
    for entity in entities:
        if key in quotas.get(entity, {}):
            return Limit(entity, quotas[entity][key])
    return None
