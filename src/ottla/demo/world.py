"""The customers, their cards, and the merchants. Invented, and the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

CUSTOMERS = 5_000
MERCHANTS = 60
CARDS_A_CUSTOMER_MAX = 2
TYPICAL_MEDIAN_CENTS = 2_500

# Where people live, in percent.
COUNTRIES = {"DE": 24, "FR": 18, "IT": 15, "ES": 13, "PL": 11, "NL": 7, "CZ": 5, "AT": 4, "PT": 3}
FIRST_NAMES = (
    *("Ada", "Ben", "Clara", "David", "Elif", "Franz", "Greta", "Hugo", "Ines", "Jan"),
    *("Karla", "Luca", "Milena", "Noah", "Olga", "Pavel", "Rosa", "Samuel", "Tereza", "Viktor"),
)
LAST_NAMES = (
    *("Adler", "Bauer", "Costa", "Dvořák", "Esposito", "Fischer", "Garcia", "Horvat", "Ivanov"),
    *("Jansen", "Kowalski", "Lopez", "Moreau", "Novák", "Okafor", "Petit", "Rossi", "Silva"),
)
CATEGORIES = ("grocery", "fuel", "restaurant", "travel", "fashion", "electronics", "books")


class Customer(NamedTuple):
    id: str
    name: str
    country: str
    typical_cents: int
    """The customer's median payment."""
    cards: tuple[str, ...]


class Merchant(NamedTuple):
    id: str
    category: str
    country: str


@dataclass(frozen=True)
class World:
    customers: list[Customer]
    merchants: list[Merchant]
    by_country: dict[str, list[Merchant]]

    @classmethod
    def make(cls, seed: int, customers: int = CUSTOMERS) -> World:
        random = Random(seed)
        merchants = _merchants(random)
        by_country: dict[str, list[Merchant]] = {}
        for merchant in merchants:
            by_country.setdefault(merchant.country, []).append(merchant)
        return cls([_customer(random, n) for n in range(customers)], merchants, by_country)


def _merchants(random: Random) -> list[Merchant]:
    places = list(COUNTRIES)
    # One after the other, so that every country has a shop.
    return [
        Merchant(f"m-{number:02}", random.choice(CATEGORIES), places[number % len(places)])
        for number in range(MERCHANTS)
    ]


def _customer(random: Random, number: int) -> Customer:
    cards = random.randint(1, CARDS_A_CUSTOMER_MAX)
    return Customer(
        id=f"c-{number:05}",
        name=f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}",
        country=random.choices(list(COUNTRIES), list(COUNTRIES.values()))[0],
        typical_cents=max(200, round(TYPICAL_MEDIAN_CENTS * random.lognormvariate(0, 0.5))),
        cards=tuple(f"card-{number:05}-{card}" for card in range(cards)),
    )
