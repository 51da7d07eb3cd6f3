"""Which seeds have clients under quotas, and what their quotas may be.

Greedy clients ignore what they are told about throttling: the broker must hold them. A free client
never has a quota. Workers have quotas now and then, and must lose nothing by it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.client.admin.quotas import QuotaEntity, QuotaName
from ottla.sim.cluster.shape import Shape, TopicShape

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAM: Final = "quotas"
"""Its own random stream; seeds depend on this name."""
RATE: Final = 0.3
HOST: Final = "stranger"
"""The machine of greedy clients. The nemesis leaves it alone, and troubles the nodes."""
GREEDY: Final = "greedy"
FREE: Final = "free"
MUTATOR: Final = "mutator"
WORKERS: Final = ("idempotent", "retrying", "reader", "source-reader", "member")
"""Whom quotas hold up without making them fail: transactions would time out."""
VALUE_BYTES_MAX: Final = 1_500

Choice = tuple[QuotaEntity, QuotaKey, "Sequence[float]"]

_GREEDY: Final = tuple(
    (entity, key, (6_000.0, 9_000.0, 12_000.0))
    for entity in (
        QuotaEntity(client_id=GREEDY),
        QuotaEntity(user=QuotaName.DEFAULT, client_id=GREEDY),
    )
    for key in (QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE)
)
_MUTATOR: Final = (
    (QuotaEntity(client_id=MUTATOR), QuotaKey.CONTROLLER_MUTATION_RATE, (0.5, 1.0, 2.0)),
)
ALWAYS: Final[tuple[Choice, ...]] = (
    *_GREEDY,
    *_MUTATOR,
    (QuotaEntity(client_id=GREEDY), QuotaKey.REQUEST_PERCENTAGE, (0.5, 50.0)),
)
_ADDRESSES: Final = (
    QuotaEntity(ip=QuotaName.DEFAULT),
    QuotaKey.CONNECTION_CREATION_RATE,
    (3.0, 5.0, 10.0),
)
UNFAIR: Final[tuple[Choice, ...]] = (
    _ADDRESSES,
    *(
        (QuotaEntity(client_id=name), key, (1_000.0, 2_000.0, 5_000.0))
        for name in WORKERS
        for key in (QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE)
    ),
    (QuotaEntity(client_id="churn"), QuotaKey.CONTROLLER_MUTATION_RATE, (0.5, 2.0)),
)
"""What makes workers wait for longer than they do without faults."""
FIRST: Final[tuple[Choice, ...]] = (*_GREEDY[:2], *_MUTATOR)
"""What is set at the start."""
FIRST_UNFAIR: Final[tuple[Choice, ...]] = (*FIRST, _ADDRESSES)


def with_quotas(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with quotas for some seeds, or as `wanted`."""
    is_drawn = chance.random() < RATE
    if not (is_drawn if wanted is None else wanted):
        return shape
    return replace(shape, limited=TopicShape("limited", chance.randint(1, 3), {}))
