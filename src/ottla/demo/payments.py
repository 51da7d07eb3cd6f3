"""Payments as they reach the broker: a daily curve, fraud, late events, duplicates, invalid ones.

Pure: the same seed gives the same payments. Planted events are marked, but only for the figures;
neither pipeline nor verifier uses the marks of fraud.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from ottla.demo import rules
from ottla.demo.world import Customer, Merchant, World

STORY_BEGINS = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
"""A Monday morning: shops open, and more and more people pay."""
SPEED = 60
"""A second of real time is a minute of the story."""

LATE_SHARE, LATE_MINUTES = 0.02, (0.2, 4.0)
VERY_LATE_SHARE, VERY_LATE_MINUTES = 0.001, (8.0, 20.0)
DUPLICATE_SHARE, DUPLICATE_MINUTES = 0.01, (0.05, 3.0)
MALFORMED_SHARE = 0.003
BURST_SHARE, TRAVEL_SHARE, LARGE_SHARE = 0.0005, 0.0008, 0.0005
ONLINE_SHARE = 0.3
AMOUNT_SIGMA = 0.6


class Payment(NamedTuple):
    id: str
    card: str
    customer: str
    merchant: str
    category: str
    country: str
    channel: str
    """chip or online."""
    amount_cents: int
    at_ms: int

    def to_json(self) -> bytes:
        return json.dumps(self._asdict()).encode()


class Emission(NamedTuple):
    """A record to be sent to the topic."""

    due_ms: float
    """When it is sent, in the time of the story."""
    number: int
    key: bytes
    value: bytes
    payment: Payment | None
    """None if the value is no payment at all."""
    planted: str = ""
    """burst, travel, large, late, very-late, duplicate, malformed; empty if ordinary."""


def day_curve(at_ms: float) -> float:
    """Return how busy the shops are, from 0 to 1, by the time of day."""
    hour = at_ms / 3_600_000 % 24
    noon = math.exp(-(((hour - 12.5) / 3.2) ** 2))
    evening = math.exp(-(((hour - 18) / 2.0) ** 2))
    return 0.08 + 0.92 * min(1.0, noon + 0.8 * evening)


@dataclass
class Generator:
    """Iterate for endless emissions, in the order in which they are sent."""

    world: World
    seed: int
    per_s: float
    """Payments per second of real time at the peak of the day."""

    def __iter__(self) -> Iterator[Emission]:
        self._random = Random(self.seed)
        self._payments = self._emissions = 0
        waiting: list[Emission] = []
        now_ms = STORY_BEGINS.timestamp() * 1000
        while True:
            now_ms += self._gap_ms(now_ms)
            for emission in self._happening(now_ms):
                heapq.heappush(waiting, emission)
            while waiting and waiting[0].due_ms <= now_ms:
                yield heapq.heappop(waiting)

    def _gap_ms(self, now_ms: float) -> float:
        return self._random.expovariate(self.per_s * day_curve(now_ms)) * 1000 * SPEED

    def _happening(self, now_ms: float) -> Iterator[Emission]:
        """Yield the events of one moment: mostly a payment, sometimes a planted event."""
        customer = self._random.choice(self.world.customers)
        dice = self._random.random()
        for share, plant in (
            (BURST_SHARE, self._burst),
            (TRAVEL_SHARE, self._travel),
            (LARGE_SHARE, self._large),
            (MALFORMED_SHARE, self._malformed),
            (LATE_SHARE, self._late),
            (VERY_LATE_SHARE, self._very_late),
            (DUPLICATE_SHARE, self._twice),
        ):
            if dice < share:
                yield from plant(customer, now_ms)
                return
            dice -= share
        yield self._emit(now_ms, self._payment(customer, now_ms))

    # Planted events.

    def _burst(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        """A thief tries a card again and again within one minute."""
        card = self._random.choice(customer.cards)
        begin_ms = now_ms - now_ms % rules.MINUTE_MS + rules.MINUTE_MS
        for number in range(rules.BURST_PAYMENTS + self._random.randint(1, 6)):
            at_ms = begin_ms + 2_000 + number * 4_000
            payment = self._payment(customer, at_ms, channel="online", card=card)
            yield self._emit(at_ms, payment, "burst")

    def _travel(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        """The same card is used in two countries, minutes apart."""
        card = self._random.choice(customer.cards)
        there = self._random.choice(
            [m for m in self.world.merchants if m.country != customer.country]
        )
        later_ms = now_ms + self._random.uniform(1, rules.TRAVEL_MINUTES - 1) * rules.MINUTE_MS
        home = self._payment(customer, now_ms, channel="chip", card=card)
        away = self._payment(customer, later_ms, channel="chip", card=card, merchant=there)
        yield self._emit(now_ms, home, "travel")
        yield self._emit(later_ms, away, "travel")

    def _large(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        usual = self._payment(customer, now_ms)
        factor = self._random.uniform(1.2, 5) * rules.LARGE_FACTOR
        large = usual._replace(amount_cents=round(customer.typical_cents * factor))
        yield self._emit(now_ms, large, "large")

    def _late(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        payment = self._payment(customer, now_ms)
        yield self._emit(now_ms + self._minutes(LATE_MINUTES), payment, "late")

    def _very_late(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        payment = self._payment(customer, now_ms)
        yield self._emit(now_ms + self._minutes(VERY_LATE_MINUTES), payment, "very-late")

    def _twice(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        """A terminal that got no answer sends the same payment again."""
        payment = self._payment(customer, now_ms)
        yield self._emit(now_ms, payment)
        yield self._emit(now_ms + self._minutes(DUPLICATE_MINUTES), payment, "duplicate")

    def _malformed(self, customer: Customer, now_ms: float) -> Iterator[Emission]:
        payment = self._payment(customer, now_ms)
        value = self._spoiled(payment)
        self._emissions += 1
        key = payment.card.encode()
        yield Emission(now_ms, self._emissions, key, value, None, "malformed")

    def _spoiled(self, payment: Payment) -> bytes:
        good = payment.to_json()
        fields = json.loads(good)
        without = {name: value for name, value in fields.items() if name != "merchant"}
        number = b"%d" % self._payments  # so that no two are equal
        return self._random.choice(
            [
                good[: len(good) // 2],
                b"\x00\xff not JSON " + number,
                json.dumps(without).encode(),
                json.dumps({**fields, "amount_cents": -1}).encode(),
                json.dumps({**fields, "at_ms": "yesterday"}).encode(),
                json.dumps([fields["id"]]).encode(),
            ]
        )

    # Their parts.

    def _payment(
        self,
        customer: Customer,
        at_ms: float,
        *,
        channel: str = "",
        card: str = "",
        merchant: Merchant | None = None,
    ) -> Payment:
        self._payments += 1
        channel = channel or ("online" if self._random.random() < ONLINE_SHARE else "chip")
        shops = (
            self.world.merchants if channel == "online" else self.world.by_country[customer.country]
        )
        # Some shops are popular.
        shop = merchant or shops[int(len(shops) * self._random.random() ** 2)]
        amount = customer.typical_cents * self._random.lognormvariate(0, AMOUNT_SIGMA)
        return Payment(
            id=f"p-{self._payments:08}",
            card=card or self._random.choice(customer.cards),
            customer=customer.id,
            merchant=shop.id,
            category=shop.category,
            country=shop.country,
            channel=channel,
            amount_cents=max(1, round(amount)),
            at_ms=int(at_ms),
        )

    def _emit(self, due_ms: float, payment: Payment, planted: str = "") -> Emission:
        self._emissions += 1
        key = payment.card.encode()
        return Emission(due_ms, self._emissions, key, payment.to_json(), payment, planted)

    def _minutes(self, span: tuple[float, float]) -> float:
        return self._random.uniform(*span) * rules.MINUTE_MS
