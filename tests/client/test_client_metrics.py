"""Counters, timers and gauges of a client."""

from __future__ import annotations

from ottla.counters import WINDOW_S, MetricRegistry


def test_a_name_asked_for_twice_is_one_counter() -> None:
    metrics = MetricRegistry()
    metrics.counter("request-total").add()
    metrics.counter("request-total").add(4)
    assert metrics.snapshot() == {"request-total": 5}


def test_a_timer_shows_average_and_largest() -> None:
    metrics = MetricRegistry()
    assert metrics.timer("latency").average_and_max() == (0.0, 0.0)
    for value in (1, 2, 6):
        metrics.timer("latency").record(value)
    assert metrics.snapshot() == {"latency-avg": 3.0, "latency-max": 6.0}


def test_a_gauge_is_looked_up_when_asked_for() -> None:
    metrics = MetricRegistry()
    queue: list[int] = []
    metrics.gauge("queued", lambda: len(queue))
    queue.append(1)
    assert metrics.snapshot() == {"queued": 1}


def test_timers_forget_what_is_older_than_two_windows() -> None:
    now = 0.0
    metrics = MetricRegistry(lambda: now)
    metrics.timer("latency").record(100)
    for _ in range(2):
        now += WINDOW_S
        assert metrics.snapshot()["latency-max"] == 100
        metrics.timer("latency").record(1)
    now += WINDOW_S
    assert metrics.snapshot() == {"latency-avg": 1.0, "latency-max": 1.0}
