"""Kafka's metrics of quotas, and what the log says of clients that are throttled."""

from __future__ import annotations

import pytest

from ottla.broker.metadata.security_image import QuotaKey, Quotas
from ottla.broker.quotas import throttling
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.connections import UNLIMITED, ConnectionRates
from ottla.broker.quotas.entities import AllQuotas
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.broker.quotas.settings import SWEEP_INTERVAL_S, QuotaWindows
from ottla.counters import Metric

WINDOWS = QuotaWindows(11, 1)
HOUR_S = 3600.0
EVERYBODY: AllQuotas = {
    (("user", "alice"),): {QuotaKey.PRODUCER_BYTE_RATE: 100.0, QuotaKey.REQUEST_PERCENTAGE: 50.0},
    (("client-id", None),): {QuotaKey.CONSUMER_BYTE_RATE: 200.0},
}
ALICE = {"user": "alice", "client-id": ""}
APP = {"user": "", "client-id": "app"}


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> list[dict[str, object]]:
    return []


@pytest.fixture
def quotas(clock: Clock, lines: list[dict[str, object]]) -> ClientQuotas:
    made = ClientQuotas(WINDOWS, clock, lines.append)
    made.take(EVERYBODY)
    return made


def throttle(quotas: ClientQuotas, clock: Clock, amount: float, client_id: str = "app") -> int:
    allowance = quotas.allowance("alice", client_id)
    assert allowance is not None
    assert allowance.produced is not None
    throttle_ms = allowance.produced.charge(amount, clock.now_s)
    if throttle_ms:
        key = QuotaKey.PRODUCER_BYTE_RATE
        quotas.throttled(key, allowance.produced, throttle_ms, clock.now_s)
    return throttle_ms


def test_a_client_with_quotas_has_its_rates_and_throttle_times(
    quotas: ClientQuotas, clock: Clock
) -> None:
    assert quotas.allowance("bob", "") is None
    assert throttle(quotas, clock, 2_000) == 10_000
    assert throttle(quotas, clock, 1_000) == 20_000
    found = list(quotas.metrics())
    assert Metric("Produce", "byte-rate", ALICE, 300.0) in found
    assert Metric("Produce", "throttle-time", ALICE, 15_000.0) in found
    assert Metric("Fetch", "byte-rate", APP, 0.0) in found
    assert Metric("Fetch", "throttle-time", APP, 0.0) in found
    assert Metric("Request", "request-time", ALICE, 0.0) in found
    assert Metric("Request", "exempt-request-time", {}, 0.0) in found
    assert len(found) == 7, "nobody else is measured"
    clock.now_s += 59
    assert throttle(quotas, clock, 1) == 0
    found = list(quotas.metrics())
    assert Metric("Produce", "throttle-time", ALICE, 15_000.0) in found, "within two windows"
    clock.now_s += 2
    assert Metric("Produce", "throttle-time", ALICE, 0.0) in list(quotas.metrics())


def test_requests_of_other_nodes_are_measured_only_beside_quotas_of_time(
    quotas: ClientQuotas, clock: Clock
) -> None:
    assert quotas.exempt.requests is not None
    assert quotas.exempt.requests.charge(1e12, clock.now_s) == 0
    assert Metric("Request", "exempt-request-time", {}, 1e11) in list(quotas.metrics())
    quotas.take({(("client-id", None),): {QuotaKey.CONSUMER_BYTE_RATE: 200.0}})
    assert "exempt-request-time" not in {metric.name for metric in quotas.metrics()}


def test_who_did_nothing_for_an_hour_is_forgotten(quotas: ClientQuotas, clock: Clock) -> None:
    for number in range(100):
        assert quotas.allowance("bob", f"c{number}") is not None
    clock.now_s += HOUR_S - 1
    throttle(quotas, clock, 1)
    assert len(list(quotas.metrics())) == 2 * (100 + 3) + 1
    clock.now_s += SWEEP_INTERVAL_S
    assert len(list(quotas.metrics())) == 2 * 3 + 1
    assert quotas.allowance("bob", "new") is not None
    assert len(quotas._budgets) == 4
    assert ALICE in [metric.labels for metric in quotas.metrics()], "she was here a minute ago"


def test_changes_of_partitions_have_their_rate_and_tokens(clock: Clock) -> None:
    kept = MutationQuotas(WINDOWS, clock)
    limits: Quotas = {QuotaKey.CONTROLLER_MUTATION_RATE: 1.0}
    change = kept.mutation({(("user", "alice"),): limits}, "alice", "app", is_strict=False)
    change.charge(15)
    assert change.settle() == 4_000
    assert list(kept.metrics()) == [
        Metric("ControllerMutation", "mutation-rate", ALICE, 1.5),
        Metric("ControllerMutation", "tokens", ALICE, -4.0),
        Metric("ControllerMutation", "throttle-time", ALICE, 4_000.0),
    ]
    clock.now_s += HOUR_S
    assert list(kept.metrics()) == []
    kept.mutation({(("user", "bob"),): limits}, "bob", "", is_strict=False)
    assert len(kept._budgets) == 1


def test_new_connections_are_measured_by_listener_and_address(clock: Clock) -> None:
    rates = ConnectionRates(WINDOWS, clock)
    rates.configure(UNLIMITED, {"CLIENTS": 1, "NODES": UNLIMITED}, "NODES")
    rates.take({(("ip", "10.0.0.1"),): {QuotaKey.CONNECTION_CREATION_RATE: 0.5}})
    for _ in range(10):
        assert rates.delay_ms("CLIENTS") == 0
        rates.refusal_ms("CLIENTS", "10.0.0.1")
    assert rates.delay_ms("NODES") == 0
    group = "socket-server-metrics"
    clients, nodes, address = {"listener": "CLIENTS"}, {"listener": "NODES"}, {"ip": "10.0.0.1"}
    accepted = "connection-accept-rate"
    assert list(rates.metrics()) == [
        Metric(group, f"broker-{accepted}", {}, 0.5),
        Metric(group, accepted, clients, 0.5),
        Metric(group, "connection-accept-throttle-time", clients, 0.0),
        Metric(group, "ip-connection-accept-throttle-time", clients, 1_000.0),
        Metric(group, accepted, nodes, 0.1),
        Metric(group, "connection-accept-throttle-time", nodes, 0.0),
        Metric(group, "ip-connection-accept-throttle-time", nodes, 0.0),
        Metric(group, accepted, address, 0.5),
    ]
    for _ in range(6):
        rates.delay_ms("CLIENTS")
    found = {(m.name, m.labels.get("listener")): m.value for m in rates.metrics()}
    assert found["connection-accept-throttle-time", "CLIENTS"] == 1_000.0
    clock.now_s += HOUR_S
    assert not any("ip" in metric.labels for metric in rates.metrics())


def test_a_line_a_minute_says_who_is_throttled(
    quotas: ClientQuotas, clock: Clock, lines: list[dict[str, object]]
) -> None:
    for _ in range(5):
        throttle(quotas, clock, 2_000)
    assert lines == [
        {"quota": "producer_byte_rate", "limit": 100.0, "throttle_ms": 10_000, "user": "alice"}
    ]
    clock.now_s += throttling.LINE_INTERVAL_S
    throttle(quotas, clock, 2_000)
    assert lines[1]["times_since_last_line"] == 5
    assert len(lines) == 2


def test_many_who_are_throttled_at_once_do_not_fill_the_log(
    quotas: ClientQuotas, clock: Clock, lines: list[dict[str, object]]
) -> None:
    quotas.take({(("client-id", None), ("user", "alice")): {QuotaKey.PRODUCER_BYTE_RATE: 1.0}})
    for number in range(1_000):
        throttle(quotas, clock, 1_000, f"{number:03}" * 1_000)
    assert len(lines) == throttling.LINES_PER_S_MAX
    clock.now_s += 1
    throttle(quotas, clock, 1_000, "late")
    assert lines[-1]["others_not_logged"] == 1_000 - throttling.LINES_PER_S_MAX
