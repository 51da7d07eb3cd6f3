"""Rates, budgets and token buckets, against models of Kafka's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.budget import Budget
from ottla.broker.quotas.entities import Tags
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.rate import Rate

START_MS = 1_000_000
DEFAULTS = QuotaWindows(11, 1)
ALICE = Tags("alice", "")


class KafkaRate:
    """Kafka's `Rate` over a `SampledStat`: a ring of samples that are used again."""

    def __init__(self, count: int, window_ms: int) -> None:
        self.count = count
        self.window_ms = window_ms
        self.ring: list[list[float]] = []
        """Start, last event, value."""
        self.current = 0

    def record(self, value: float, now: int) -> None:
        if not self.ring:
            self.ring.append([now, now, 0])
        if now - self.ring[self.current][0] >= self.window_ms:
            self.current = (self.current + 1) % (self.count + 1)
            if self.current >= len(self.ring):
                self.ring.append([now, now, 0])
            else:
                self.ring[self.current] = [now, now, 0]
        self.ring[self.current][1] = now
        self.ring[self.current][2] += value

    def measure(self, now: int) -> tuple[float, int]:
        """The sum, and the milliseconds over which it is measured."""
        for sample in self.ring:
            if now - sample[1] >= self.count * self.window_ms:
                sample[:] = [now, now, 0]
        elapsed = now - min(start for start, _, _ in self.ring)
        full = elapsed // self.window_ms
        if full < self.count - 1:
            elapsed += int(self.count - 1 - full) * self.window_ms
        return sum(value for _, _, value in self.ring), max(int(elapsed), 1)


events = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10_000)), max_size=60)


# Multiples of 1/8 s: floats hold them exactly, and Kafka counts whole milliseconds.
@given(
    st.integers(1, 12),
    st.sampled_from((125, 1_000, 2_000)),
    st.lists(
        st.tuples(st.integers(0, 30).map(lambda n: n * 125), st.integers(0, 10_000)), max_size=60
    ),
)
def test_a_rate_is_what_kafka_measures(
    count: int, window_ms: int, happened: list[tuple[int, int]]
) -> None:
    ours, kafkas = Rate(count, window_ms / 1000), KafkaRate(count, window_ms)
    now = START_MS
    for pause_ms, amount in happened:
        now += pause_ms
        ours.record(amount, now / 1000)
        kafkas.record(amount, now)
        total, elapsed_ms = kafkas.measure(now)
        expected = total / elapsed_ms * 1000
        assert ours.per_second(now / 1000) == pytest.approx(expected)
        pause = max(0.0, (expected - 100) / 100 * elapsed_ms / 1000)
        assert ours.pause_s(100, now / 1000) == pytest.approx(pause)


def used_per_second(budget: Budget, chunk: float) -> float:
    """The rate of a client that waits exactly as long as it is told, after the first windows, which
    may be used up at once."""
    now = float(START_MS)
    measured_from = now + 3 * budget.windows.span_s
    end = measured_from + 120
    used = 0.0
    while now < end:
        used += chunk if now >= measured_from else 0
        now += 0.0001 + budget.charge(chunk, now) / 1000
    return used / (now - measured_from)


@pytest.mark.parametrize("chunk", [100, 16_384, 40_000])
@pytest.mark.parametrize("windows", [DEFAULTS, QuotaWindows(3, 0.2)])
def test_a_greedy_client_gets_its_rate_and_no_more(chunk: int, windows: QuotaWindows) -> None:
    limit = 200_000
    budget = Budget(ALICE, limit, windows, START_MS)
    rate = used_per_second(budget, chunk)
    assert limit * 0.95 <= rate <= limit * 1.05


def test_the_pause_for_request_time_has_a_limit() -> None:
    budget = Budget(ALICE, 1, DEFAULTS, START_MS, pause_s_max=1)
    assert budget.charge(1_000_000, START_MS) == 1_000


def test_what_is_taken_back_does_not_count() -> None:
    budget = Budget(ALICE, 100, DEFAULTS, START_MS)
    assert budget.charge(2_000, START_MS) == 10_000
    budget.note(-2_000, START_MS)
    assert budget.throttle_ms(START_MS) == 0


def test_no_limit_is_no_pause() -> None:
    budget = Budget(ALICE, math.inf, DEFAULTS, START_MS)
    assert budget.charge(1e30, START_MS) == 0
    assert budget.at_once_max == 2**63 - 1


def taken(bucket: TokenBucket, steps: list[tuple[int, int]]) -> Iterator[tuple[float, float]]:
    now = float(START_MS)
    for pause_ms, amount in steps:
        now += pause_ms / 1000
        if bucket.tokens(now) >= 0:
            bucket.take(amount, now)
            yield now, amount


@given(st.integers(1, 50), events)
def test_a_bucket_gives_its_burst_and_its_rate(limit: int, steps: list[tuple[int, int]]) -> None:
    bucket = TokenBucket(limit, DEFAULTS, START_MS)
    got = list(taken(bucket, steps))
    for index, (now, _) in enumerate(got):
        before = sum(amount for _, amount in got[:index])
        assert before <= limit * (11 + now - START_MS) + 1e-6


def test_an_empty_bucket_tells_when_it_gives_again() -> None:
    bucket = TokenBucket(2, DEFAULTS, START_MS)
    bucket.take(32, START_MS)
    assert bucket.throttle_ms(START_MS) == 5_000
    assert bucket.throttle_ms(START_MS + 4) == 1_000
    assert bucket.throttle_ms(START_MS + 5) == 0
    assert not bucket.is_full(START_MS + 15)
    assert bucket.is_full(START_MS + 16)


@given(st.floats(0.1, 10_000), st.floats(0.001, 1_000_000), st.floats(0, 1e9))
def test_who_waits_as_long_as_he_was_told_need_not_wait_again(
    limit: float, amount: float, started_s: float
) -> None:
    bucket = TokenBucket(limit, DEFAULTS, started_s)
    bucket.take(11 * limit + amount, started_s)
    told_s = bucket.throttle_ms(started_s) / 1000
    if told_s > 0.01:
        assert bucket.is_overdrawn(started_s + told_s - 0.01)
    assert not bucket.is_overdrawn(started_s + told_s)
