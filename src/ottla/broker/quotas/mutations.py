"""The budgets of clients that create and delete partitions: `controller_mutation_rate`.

Only the active controller keeps them. A budget is a token bucket, a token for each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.entities import AllQuotas, Tags, bound_of
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.protocol.errors import ErrorCode, KafkaError

BUCKETS_MAX: Final = 10_000
"""Beyond it full buckets are forgotten, and if that is not enough, the oldest ones."""
BUCKETS_KEPT: Final = 9_000


class Mutation:
    """The tokens that one request takes from the bucket of its client, which may have no limit."""

    __slots__ = ("_bucket", "_is_exceeded", "_is_strict", "_now")

    def __init__(
        self, bucket: TokenBucket | None, now: Callable[[], float], *, is_strict: bool
    ) -> None:
        """`is_strict`: what exceeds the quota is refused; else it only makes the client wait."""
        self._bucket = bucket
        self._now = now
        self._is_strict = is_strict
        self._is_exceeded = False

    def charge(self, partitions: int) -> None:
        """Take tokens for a change; raises THROTTLING_QUOTA_EXCEEDED, before the change is made."""
        if self._bucket is None:
            return
        now = self._now()
        if self._is_strict and self._bucket.tokens(now) < 0:
            self._is_exceeded = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        self._bucket.take(partitions, now)
        if not self._is_strict and self._bucket.tokens(now) < 0:
            self._is_exceeded = True

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait until it may make another change, if this one exceeded
        the quota."""
        if self._bucket is None or not self._is_exceeded:
            return 0
        return self._bucket.throttle_ms(self._now())


class MutationQuotas:
    def __init__(self, windows: QuotaWindows, now: Callable[[], float]) -> None:
        self._windows = windows
        self._now = now
        self._buckets: dict[Tags, TokenBucket] = {}

    def mutation(
        self, quotas: AllQuotas, user: str, client_id: str, *, is_strict: bool
    ) -> Mutation:
        bound = bound_of(quotas, QuotaKey.CONTROLLER_MUTATION_RATE, user, client_id)
        bucket = None
        if bound is not None:
            bucket = self._buckets.get(bound.tags)
            if bucket is None:
                if len(self._buckets) >= BUCKETS_MAX:
                    self._forget_some()
                bucket = TokenBucket(bound.limit, self._windows, self._now())
                self._buckets[bound.tags] = bucket
            bucket.limit = bound.limit
        return Mutation(bucket, self._now, is_strict=is_strict)

    def _forget_some(self) -> None:
        now = self._now()
        kept = [item for item in self._buckets.items() if not item[1].is_full(now)]
        self._buckets = dict(kept[-BUCKETS_KEPT:])
