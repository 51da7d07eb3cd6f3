"""Computes the expected results from the input in plain Python, and compares them.

Pure, and deliberately without any code of the pipeline: a mistake there must not be repeated here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from ottla.demo import rules
from ottla.demo.payments import Emission, Payment
from ottla.demo.world import Customer

EXAMPLES = 3


class Totals(NamedTuple):
    payments: int
    amount_cents: int


@dataclass
class Outcome:
    """The contents of the topics and the archive at the end, for a `read_committed` reader."""

    payments: list[bytes] = field(default_factory=list)
    archive: list[bytes] = field(default_factory=list)
    dead_letters: list[bytes] = field(default_factory=list)
    clean: list[tuple[str, str]] = field(default_factory=list)
    """Id of the payment, and its customer's name from the table."""
    minutes: Mapping[str, Totals] = field(default_factory=dict)
    """By `merchant@minute`, the newest of each."""
    alerts: list[str] = field(default_factory=list)


class Check(NamedTuple):
    claim: str
    good: bool
    detail: str


def verify(sent: list[Emission], customers: Iterable[Customer], found: Outcome) -> list[Check]:
    people = {customer.id: customer for customer in customers}
    payments = list({e.payment.id: e.payment for e in sent if e.payment is not None}.values())
    values = [emission.value for emission in sent]
    return [
        _same("the topic has every event that was sent, once", values, found.payments),
        _same("the archive has every event of the topic, once", found.payments, found.archive),
        _same(
            "malformed events, and no others, are dead letters",
            [emission.value for emission in sent if emission.payment is None],
            found.dead_letters,
        ),
        _same(
            "every payment was taken, once, with the name of its customer",
            [(payment.id, people[payment.customer].name) for payment in payments],
            found.clean,
        ),
        _minutes(payments, found.minutes),
        _same("every fraud alert was given, once", alerts(payments, people), found.alerts),
    ]


def _minutes(payments: Iterable[Payment], found: Mapping[str, Totals]) -> Check:
    count: Counter[str] = Counter()
    amount: Counter[str] = Counter()
    for payment in payments:
        window = f"{payment.merchant}@{payment.at_ms // rules.MINUTE_MS * rules.MINUTE_MS}"
        count[window] += 1
        amount[window] += payment.amount_cents
    expected = {window: Totals(count[window], amount[window]) for window in count}
    wrong = [
        f"{window}: {found.get(window)} instead of {expected.get(window)}"
        for window in expected.keys() | found.keys()
        if expected.get(window) != found.get(window)
    ]
    told = f"{len(expected):,} windows, {sum(amount.values()) / 100:,.2f} EUR"
    return _check("every total by merchant and minute is right, to the cent", wrong, told)


def alerts(payments: Iterable[Payment], people: Mapping[str, Customer]) -> list[str]:
    """Return the expected alerts, each with a name that says which payments it is about."""
    named: list[str] = []
    by_card: defaultdict[str, list[Payment]] = defaultdict(list)
    for payment in payments:
        by_card[payment.card].append(payment)
        if payment.amount_cents > rules.LARGE_FACTOR * people[payment.customer].typical_cents:
            named.append(f"large {payment.id}")
    for card, some in by_card.items():
        minutes = Counter(payment.at_ms // rules.MINUTE_MS * rules.MINUTE_MS for payment in some)
        named += [f"burst {card} {at}" for at, n in minutes.items() if n >= rules.BURST_PAYMENTS]
        named += [f"travel {pair}" for pair in _journeys(some)]
    return named


def _journeys(payments: list[Payment]) -> list[str]:
    at_till = [payment for payment in payments if payment.channel == "chip"]
    return [
        " ".join(sorted((one.id, other.id)))
        for one, other in combinations(at_till, 2)
        if one.country != other.country
        and abs(one.at_ms - other.at_ms) <= rules.TRAVEL_MINUTES * rules.MINUTE_MS
    ]


def _same(claim: str, expected: Iterable[object], found: Iterable[object]) -> Check:
    wanted, there = Counter(expected), Counter(found)
    lost, extra = wanted - there, there - wanted
    wrong = [f"missing: {_short(one)}" for one in lost.elements()]
    wrong += [f"too many: {_short(one)}" for one in extra.elements()]
    return _check(claim, wrong, f"{wanted.total():,}")


def _check(claim: str, wrong: list[str], told: str) -> Check:
    if not wrong:
        return Check(claim, True, told)
    shown = "; ".join(sorted(wrong)[:EXAMPLES])
    return Check(claim, False, f"{len(wrong):,} wrong, such as {shown}")


def _short(one: object) -> str:
    text = one.decode(errors="replace") if isinstance(one, bytes) else str(one)
    return text if len(text) <= 80 else f"{text[:77]}..."
