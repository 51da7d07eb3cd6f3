"""How long requests took, from a number of buckets that does not grow with them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.server.figures.latencies import WINDOW_S, Latencies, quantiles_ms
from ottla.broker.server.figures.requests import OTHER_VERSIONS, VERSIONS_MAX, ApiFigures

QUANTILES = (0.5, 0.75, 0.99, 0.999)


@given(st.lists(st.floats(0, 3600), min_size=1, max_size=200))
def test_quantiles_are_exact_to_an_eighth(durations: list[float]) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.record(seconds)
    ordered = sorted(durations)
    for quantile, found_ms in zip(QUANTILES, latencies.quantiles_ms(QUANTILES, 0.0), strict=True):
        exact_us = int(ordered[math.ceil(quantile * len(ordered)) - 1] * 1_000_000)
        assert exact_us <= found_ms * 1000 + 0.001
        assert found_ms * 1000 <= exact_us * 9 / 8 + 0.001
    assert latencies.count == len(durations)
    assert math.isclose(latencies.total_s, math.fsum(durations))


def test_nothing_recorded_is_told_as_zero() -> None:
    assert quantiles_ms({}, QUANTILES) == [0.0] * len(QUANTILES)


def test_quantiles_forget_what_is_older_than_two_windows() -> None:
    latencies = Latencies()
    assert latencies.quantiles_ms([0.99], WINDOW_S) == [0.0]
    latencies.record(1.0)
    now_s = 2 * WINDOW_S
    assert latencies.quantiles_ms([0.99], now_s)[0] >= 1000
    latencies.record(0.001)
    assert latencies.quantiles_ms([0.99], now_s + 1)[0] >= 1000, "the last window still counts"
    assert latencies.quantiles_ms([0.99], now_s + WINDOW_S)[0] >= 1000
    assert latencies.quantiles_ms([0.99], now_s + WINDOW_S + 1)[0] < 2
    assert latencies.quantiles_ms([0.99], now_s + 9 * WINDOW_S)[0] < 2
    assert latencies.quantiles_ms([0.99], now_s + 9 * WINDOW_S + 1) == [0.0]
    assert latencies.count == 2


def test_versions_that_are_made_up_take_no_memory() -> None:
    figures = ApiFigures("ApiVersions")
    for version in (*range(1000), 3):
        figures.begun(version, 0.0)
    assert len(figures.requests) == VERSIONS_MAX + 1
    assert figures.requests[3] == 2
    assert figures.requests[OTHER_VERSIONS] == 1000 - VERSIONS_MAX
