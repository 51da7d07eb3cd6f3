"""The verifier of the demo: content with what is right, and shown to find each kind of mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import pytest

from ottla.demo import rules
from ottla.demo.payments import Emission, Generator
from ottla.demo.verify import Check, Outcome, Totals, alerts, verify
from ottla.demo.world import World

WORLD = World.make(seed=5)
SENT = list(islice(Generator(WORLD, seed=5, per_s=2000), 15_000))
PEOPLE = {customer.id: customer for customer in WORLD.customers}
PAYMENTS = {e.payment.id: e.payment for e in SENT if e.payment}


def right() -> Outcome:
    """What a pipeline that makes no mistake leaves behind."""
    values = [emission.value for emission in SENT]
    minutes: dict[str, Totals] = {}
    for payment in PAYMENTS.values():
        window = f"{payment.merchant}@{payment.at_ms // 60_000 * 60_000}"
        count, amount = minutes.get(window, Totals(0, 0))
        minutes[window] = Totals(count + 1, amount + payment.amount_cents)
    return Outcome(
        payments=values,
        archive=values[::-1],
        dead_letters=[emission.value for emission in SENT if emission.payment is None],
        clean=[(one.id, PEOPLE[one.customer].name) for one in PAYMENTS.values()],
        minutes=minutes,
        alerts=alerts(PAYMENTS.values(), PEOPLE),
    )


def judged(found: Outcome) -> list[Check]:
    return verify(SENT, WORLD.customers, found)


def test_a_right_outcome_passes_every_check() -> None:
    assert [check for check in judged(right()) if not check.good] == []


def off_by_a_cent(found: Outcome) -> Outcome:
    window, (count, amount) = next(iter(found.minutes.items()))
    return replace(found, minutes={**found.minutes, window: Totals(count, amount + 1)})


def wrong_name(found: Outcome) -> Outcome:
    return replace(found, clean=[(found.clean[0][0], "Nobody"), *found.clean[1:]])


MISTAKES: dict[str, tuple[Callable[[Outcome], Outcome], int]] = {
    "event lost": (lambda f: replace(f, payments=f.payments[1:], archive=f.payments[1:]), 0),
    "event doubled": (
        lambda f: replace(
            f, payments=[*f.payments, f.payments[0]], archive=[*f.payments, f.payments[0]]
        ),
        0,
    ),
    "archive lacks one": (lambda f: replace(f, archive=f.archive[1:]), 1),
    "archive has one twice": (lambda f: replace(f, archive=[*f.archive, f.archive[0]]), 1),
    "dead letter lost": (lambda f: replace(f, dead_letters=f.dead_letters[1:]), 2),
    "good event among dead letters": (
        lambda f: replace(f, dead_letters=[*f.dead_letters, SENT[0].value]),
        2,
    ),
    "payment left out": (lambda f: replace(f, clean=f.clean[1:]), 3),
    "payment taken twice": (lambda f: replace(f, clean=[*f.clean, f.clean[0]]), 3),
    "payment from nowhere": (lambda f: replace(f, clean=[*f.clean, ("p-x", "Nobody")]), 3),
    "customer of another": (wrong_name, 3),
    "total off by a cent": (off_by_a_cent, 4),
    "window from nowhere": (
        lambda f: replace(f, minutes={**f.minutes, "m-1@0": Totals(1, 1)}),
        4,
    ),
    "alert lost": (lambda f: replace(f, alerts=f.alerts[1:]), 5),
    "alert doubled": (lambda f: replace(f, alerts=[*f.alerts, f.alerts[0]]), 5),
    "false alert": (lambda f: replace(f, alerts=[*f.alerts, "large p-1"]), 5),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found_by_the_check_that_is_about_it(name: str) -> None:
    spoil, number = MISTAKES[name]
    failed = [n for n, check in enumerate(judged(spoil(right()))) if not check.good]
    assert failed == [number], name


def test_every_planted_fraud_is_an_alert() -> None:
    named = alerts(PAYMENTS.values(), PEOPLE)
    assert max(Counter(named).values()) == 1
    text = " ".join(named)
    for emission in SENT:
        if emission.payment and emission.planted in ("large", "travel", "burst"):
            assert sought(emission) in text or is_cut_off(emission), emission


def sought(emission: Emission) -> str:
    assert emission.payment is not None
    minute = emission.payment.at_ms // rules.MINUTE_MS * rules.MINUTE_MS
    by_card = f"burst {emission.payment.card} {minute}"
    return by_card if emission.planted == "burst" else emission.payment.id


def is_cut_off(emission: Emission) -> bool:
    """The list ends somewhere, and with it what was about to happen."""
    return emission.due_ms > SENT[-1].due_ms - rules.TRAVEL_MINUTES * rules.MINUTE_MS
