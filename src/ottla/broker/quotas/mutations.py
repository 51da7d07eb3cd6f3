"""The budgets of clients that create and delete partitions: `controller_mutation_rate`.

Only the active controller keeps them. A budget is a token bucket, a token for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.entities import AllQuotas, Tags, bound_of, labels_of
from ottla.broker.quotas.settings import SWEEP_INTERVAL_S, UNUSED_S_MAX, QuotaWindows
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.rate import Rate

if TYPE_CHECKING:
    from ottla.broker.quotas.throttling import Tell, ThrottleLog, Throttling
    from ottla.counters import Metric

BUCKETS_MAX: Final = 10_000
"""Beyond it full buckets are forgotten, and if that is not enough, the oldest ones."""
BUCKETS_KEPT: Final = 9_000
_GROUP: Final = "ControllerMutation"


class MutationBudget:
    """What the clients of the same tags may change, and what they changed."""

    __slots__ = ("bucket", "last_used_s", "rate", "tags", "throttling")

    def __init__(self, tags: Tags, bucket: TokenBucket, windows: QuotaWindows, now: float) -> None:
        self.tags = tags
        self.bucket = bucket
        self.last_used_s = now
        self.rate = Rate(windows.number, windows.size_s)
        """Counts what was changed; only the bucket limits it."""
        self.throttling: Throttling | None = None

    def take(self, partitions: int, now: float) -> None:
        self.last_used_s = now
        self.bucket.take(partitions, now)
        self.rate.record(partitions, now)


class Mutation:
    """What one request takes from the budget of its client, which may have no limit."""

    __slots__ = ("_budget", "_is_exceeded", "_is_strict", "_quotas")

    def __init__(
        self, quotas: MutationQuotas, budget: MutationBudget | None, *, is_strict: bool
    ) -> None:
        """`is_strict`: what exceeds the quota is refused; else it only makes the client wait."""
        self._quotas = quotas
        self._budget = budget
        self._is_strict = is_strict
        self._is_exceeded = False

    def charge(self, partitions: int) -> None:
        """Take tokens for a change; raises THROTTLING_QUOTA_EXCEEDED, before the change is made."""
        budget = self._budget
        if budget is None:
            return
        now = self._quotas.now()
        if self._is_strict and budget.bucket.is_overdrawn(now):
            self._is_exceeded = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        budget.take(partitions, now)
        if not self._is_strict and budget.bucket.tokens(now) < 0:
            self._is_exceeded = True

    def settle(self) -> int:
        """Return for how many milliseconds the client has to wait until it may make another change,
        if this one exceeded the quota."""
        budget = self._budget
        if budget is None or not self._is_exceeded:
            return 0
        throttle_ms = budget.bucket.throttle_ms(self._quotas.now())
        if throttle_ms:
            self._quotas.throttled(budget, throttle_ms)
        return throttle_ms


class MutationQuotas:
    def __init__(
        self,
        windows: QuotaWindows,
        now: Callable[[], float],
        tell: Tell = lambda fields: None,
    ) -> None:
        """`tell` logs who is throttled."""
        self.now = now
        self._windows = windows
        self._budgets: dict[Tags, MutationBudget] = {}
        self._tell = tell
        self._log: ThrottleLog | None = None
        self._swept_s = now()

    def mutation(
        self, quotas: AllQuotas, user: str, client_id: str, *, is_strict: bool
    ) -> Mutation:
        bound = bound_of(quotas, QuotaKey.CONTROLLER_MUTATION_RATE, user, client_id)
        budget = None
        if bound is not None:
            budget = self._budgets.get(bound.tags)
            if budget is None:
                self._make_room()
                now = self.now()
                bucket = TokenBucket(bound.limit, self._windows, now)
                budget = MutationBudget(bound.tags, bucket, self._windows, now)
                self._budgets[bound.tags] = budget
            budget.bucket.limit = bound.limit
        return Mutation(self, budget, is_strict=is_strict)

    def unlimited(self) -> Mutation:
        return Mutation(self, None, is_strict=False)

    def throttled(self, budget: MutationBudget, throttle_ms: int) -> None:
        """Count and log a request that has to wait."""
        if self._log is None:
            from ottla.broker.quotas.throttling import ThrottleLog

            self._log = ThrottleLog(self._tell)
        key, labels = QuotaKey.CONTROLLER_MUTATION_RATE, labels_of(budget.tags)
        self._log.note(key, labels, budget.bucket.limit, budget, throttle_ms, self.now())

    def metrics(self) -> Iterator[Metric]:
        """Yield Kafka's metrics of all clients that have a quota and used it lately."""
        from ottla.broker.quotas.throttling import throttle_time_ms
        from ottla.counters import Metric

        now = self.now()
        for tags, budget in self._budgets.items():
            if now - budget.last_used_s < UNUSED_S_MAX:
                labels = labels_of(tags)
                yield Metric(_GROUP, "mutation-rate", labels, budget.rate.per_second(now))
                yield Metric(_GROUP, "tokens", labels, budget.bucket.tokens(now))
                yield Metric(_GROUP, "throttle-time", labels, throttle_time_ms(budget, now))

    def _make_room(self) -> None:
        now = self.now()
        if len(self._budgets) >= BUCKETS_MAX:
            kept = [item for item in self._budgets.items() if not item[1].bucket.is_full(now)]
            self._budgets = dict(kept[-BUCKETS_KEPT:])
        elif now - self._swept_s >= SWEEP_INTERVAL_S:
            self._swept_s = now
            self._budgets = {
                tags: budget
                for tags, budget in self._budgets.items()
                if now - budget.last_used_s < UNUSED_S_MAX or not budget.bucket.is_full(now)
            }
