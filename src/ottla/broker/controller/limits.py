"""Limits on what one request may ask of the controller."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias, TypeVar

from ottla.protocol.errors import ErrorCode, KafkaError

H = TypeVar("H", bound=Hashable)

PARTITIONS_PER_REQUEST_MAX = 10_000


Charge: TypeAlias = Callable[[int], None]
"""Takes so many created or deleted partitions from the client's quota; raises `KafkaError` if it is
exceeded."""


def unlimited(_partitions: int) -> None:
    """The `Charge` of whom no quota limits."""


def check_partitions(wanted: int) -> None:
    """Refuse too many before anything is built: the number comes from the client and may be
    billions."""
    if wanted > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {wanted}, allowed are "
            f"{PARTITIONS_PER_REQUEST_MAX}.",
        )


def told_message(error: KafkaError) -> str | None:
    """Return the message of an element that is refused. As in Kafka, a quota needs none."""
    return None if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED else error.message


def repeated(items: Iterable[H]) -> set[H]:
    """Return the items that occur more than once."""
    seen: set[H] = set()
    twice: set[H] = set()
    for item in items:
        (twice if item in seen else seen).add(item)
    return twice
