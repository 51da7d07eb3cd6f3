"""How fast connections may be opened."""

from __future__ import annotations

import pytest

from ottla.broker.quotas import connections
from ottla.broker.quotas.connections import UNLIMITED, ConnectionRates
from ottla.broker.quotas.settings import QuotaWindows

RATE = {"connection_creation_rate": 1.0}


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(clock: Clock) -> ConnectionRates:
    made = ConnectionRates(QuotaWindows(11, 1), clock)
    made.configure(UNLIMITED, {"CLIENTS": UNLIMITED, "NODES": UNLIMITED}, "NODES")
    return made


def test_without_limits_nothing_is_counted(rates: ConnectionRates) -> None:
    assert not any(rates.delay_ms("CLIENTS") for _ in range(1_000))
    assert not any(rates.refusal_ms("CLIENTS", "10.0.0.1") for _ in range(1_000))
    assert not rates._by_address


def test_the_limit_of_the_broker_does_not_hold_up_other_nodes(rates: ConnectionRates) -> None:
    rates.configure(2, {"CLIENTS": UNLIMITED, "NODES": UNLIMITED}, "NODES")
    delays = [rates.delay_ms("CLIENTS") for _ in range(30)]
    assert not any(delays[:20])
    assert all(delays[20:])
    assert max(delays) <= 1_000, "one window"
    assert not any(rates.delay_ms("NODES") for _ in range(100))


def test_a_single_listener_has_the_limit_of_the_broker(rates: ConnectionRates) -> None:
    rates.configure(2, {"ONLY": UNLIMITED}, "ONLY")
    assert any(rates.delay_ms("ONLY") for _ in range(30))


def test_a_listener_has_a_limit_of_its_own(rates: ConnectionRates) -> None:
    rates.configure(UNLIMITED, {"CLIENTS": UNLIMITED, "NODES": 1}, "NODES")
    assert not any(rates.delay_ms("CLIENTS") for _ in range(100))
    assert any(rates.delay_ms("NODES") for _ in range(20))


def test_an_address_has_its_own_quota_or_the_default(rates: ConnectionRates, clock: Clock) -> None:
    rates.take({(("ip", None),): RATE, (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0}})
    welcome = [rates.refusal_ms("CLIENTS", "10.0.0.1") for _ in range(100)].count(0)
    assert welcome == 50
    assert [rates.refusal_ms("CLIENTS", "10.0.0.2") for _ in range(100)].count(0) == 10
    assert [rates.refusal_ms("CLIENTS", "::ffff:10.0.0.2") for _ in range(10)].count(0) == 0
    clock.now_s += 12
    assert rates.refusal_ms("CLIENTS", "10.0.0.2") == 0
    rates.take({})
    assert not any(rates.refusal_ms("CLIENTS", "10.0.0.2") for _ in range(100))


def test_who_is_refused_by_his_address_does_not_hold_up_others(rates: ConnectionRates) -> None:
    rates.configure(20, {"CLIENTS": 20, "NODES": UNLIMITED}, "NODES")
    rates.take({(("ip", "10.0.0.1"),): RATE})
    for _ in range(1_000):
        rates.delay_ms("CLIENTS")
        rates.refusal_ms("CLIENTS", "10.0.0.1")
    assert rates.delay_ms("CLIENTS") == 0


def test_addresses_are_bounded(rates: ConnectionRates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ADDRESSES_MAX", 100)
    rates.take({(("ip", None),): RATE})
    for number in range(1_000):
        rates.refusal_ms("CLIENTS", f"10.0.{number // 250}.{number % 250}")
        assert len(rates._by_address) <= 100
