"""Which quota counts for a client, and the bounds on what is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.metadata.security_image import QuotaEntity, QuotaKey
from ottla.broker.quotas import client_quotas, mutations
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.entities import Tags, bound_of
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.protocol.errors import ErrorCode, KafkaError

RATE = QuotaKey.PRODUCER_BYTE_RATE
Quotas = dict[QuotaEntity, dict[str, float]]
IN_ORDER = (
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"user": "u"},
    {"user": None, "client-id": "c"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
)
"""Kafka's order, the most specific one first."""


def entity(parts: dict[str, str | None]) -> QuotaEntity:
    return tuple(sorted(parts.items()))


@given(st.sets(st.sampled_from(range(len(IN_ORDER)))))
def test_the_most_specific_quota_counts(present: set[int]) -> None:
    quotas: Quotas = {entity(IN_ORDER[at]): {RATE: float(at)} for at in present}
    quotas[("client-id", "c"), ("user", "other")] = {RATE: 99.0}
    quotas[("client-id", "c"), ("user", "u")] = {
        **quotas.get((("client-id", "c"), ("user", "u")), {}),
        "request_percentage": 1.0,
    }
    bound = bound_of(quotas, RATE, "u", "c")
    assert (None if bound is None else bound.limit) == min(present, default=None)


@pytest.mark.parametrize(
    ("at", "tags"),
    [
        *((0, ("u", "c")), (1, ("u", "c")), (2, ("u", "")), (3, ("u", "c"))),
        *((4, ("u", "c")), (5, ("u", "")), (6, ("", "c")), (7, ("", "c"))),
    ],
)
def test_who_shares_a_budget_follows_from_the_quota(at: int, tags: Tags) -> None:
    bound = bound_of({entity(IN_ORDER[at]): {RATE: 1.0}}, RATE, "u", "c")
    assert bound is not None
    assert bound.tags == tags


def test_long_names_have_budgets_of_their_own_and_take_little_memory(quotas: ClientQuotas) -> None:
    long = "x" * 30_000
    quotas.take(
        {entity({"client-id": None}): {RATE: 1.0}, entity({"client-id": long}): {RATE: 2.0}}
    )
    limits = []
    for client_id in (long, f"{long}1", f"{long}2", f"{long}1"):
        allowance = quotas.allowance("u", client_id)
        assert allowance is not None
        assert allowance.produced is not None
        limits.append(allowance.produced.limit)
    assert limits == [2.0, 1.0, 1.0, 1.0]
    assert len(quotas._budgets) == 3
    kept = [*(tags.client_id for _, tags in quotas._budgets), *(c for _, c in quotas._allowances)]
    assert max(map(len, kept)) < 1_000


def test_without_a_client_id_the_default_client_id_does_not_count() -> None:
    assert bound_of({entity({"client-id": None}): {RATE: 1.0}}, RATE, "u", "") is None
    quotas: Quotas = {entity({"user": "u", "client-id": None}): {RATE: 1.0}}
    assert bound_of(quotas, RATE, "u", "") is None
    quotas[entity({"user": None})] = {RATE: 2.0}
    bound = bound_of(quotas, RATE, "u", "")
    assert bound is not None
    assert bound == (Tags("u", ""), 2.0)


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quotas(clock: Clock) -> ClientQuotas:
    return ClientQuotas(QuotaWindows(11, 1), clock)


def test_clients_without_a_quota_have_no_allowance(quotas: ClientQuotas) -> None:
    assert not quotas.is_active
    quotas.take({(("ip", None),): {"connection_creation_rate": 5.0}})
    assert not quotas.is_active
    quotas.take({(("user", "u"),): {RATE: 5.0}})
    assert quotas.is_active
    assert quotas.allowance("other", "c") is None
    allowance = quotas.allowance("u", "c")
    assert allowance is not None
    assert (allowance.fetched, allowance.requests) == (None, None)


def test_all_connections_of_a_user_share_a_budget(quotas: ClientQuotas) -> None:
    quotas.take({(("user", "u"),): {RATE: 5.0}})
    one, other = quotas.allowance("u", "a"), quotas.allowance("u", "b")
    assert one is not None
    assert other is not None
    assert one.produced is other.produced


def test_a_new_limit_keeps_what_was_used(quotas: ClientQuotas, clock: Clock) -> None:
    quotas.take({(("user", "u"),): {RATE: 5.0}})
    first = quotas.allowance("u", "c")
    assert first is not None
    assert first.produced is not None
    assert first.produced.charge(1_000, clock.now_s) == 190_000
    quotas.take({(("user", None),): {RATE: 50.0}})
    second = quotas.allowance("u", "c")
    assert second is not None
    assert second.produced is first.produced
    assert first.produced.throttle_ms(clock.now_s) == 10_000
    quotas.take({})
    assert quotas.allowance("u", "c") is None


def test_budgets_are_bounded_and_unused_ones_go_first(
    quotas: ClientQuotas, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "BUDGETS_MAX", 100)
    monkeypatch.setattr(client_quotas, "BUDGETS_KEPT", 90)
    monkeypatch.setattr(client_quotas, "CLIENTS_REMEMBERED_MAX", 50)
    quotas.take({(("client-id", None),): {RATE: 5.0}})
    busy = quotas.allowance("u", "busy")
    assert busy is not None
    assert busy.produced is not None
    for number in range(1_000):
        clock.now_s += 0.01
        busy.produced.note(1, clock.now_s)
        assert quotas.allowance("u", f"c{number}") is not None
        assert len(quotas._budgets) <= 100
    again = quotas.allowance("u", "busy")
    assert again is not None
    assert again.produced is busy.produced


def test_buckets_of_mutations_are_bounded_and_full_ones_go_first(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "BUCKETS_MAX", 50)
    monkeypatch.setattr(mutations, "BUCKETS_KEPT", 40)
    kept = MutationQuotas(QuotaWindows(11, 1), clock)
    limits: Quotas = {(("client-id", None),): {QuotaKey.CONTROLLER_MUTATION_RATE: 1.0}}
    kept.mutation(limits, "u", "busy", is_strict=True).charge(1_000)
    for number in range(500):
        kept.mutation(limits, "u", f"c{number}", is_strict=True)
        assert len(kept._budgets) <= 50
    with pytest.raises(KafkaError) as refused:
        kept.mutation(limits, "u", "busy", is_strict=True).charge(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_old_clients_are_throttled_without_an_error(clock: Clock) -> None:
    kept = MutationQuotas(QuotaWindows(11, 1), clock)
    limits: Quotas = {(("user", "u"),): {QuotaKey.CONTROLLER_MUTATION_RATE: 2.0}}
    change = kept.mutation(limits, "u", "c", is_strict=False)
    for _ in range(3):
        change.charge(10)
    assert change.settle() == 4_000
    strict = kept.mutation(limits, "u", "c", is_strict=True)
    assert strict.settle() == 0, "nothing was charged yet"
    with pytest.raises(KafkaError):
        strict.charge(1)
    assert strict.settle() == 4_000
