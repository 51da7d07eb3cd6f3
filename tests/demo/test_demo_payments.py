"""The made-up payments: the same for the same seed, and with everything that goes wrong in them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice, pairwise

import pytest

from ottla.demo import rules
from ottla.demo.payments import SPEED, STORY_BEGINS, Emission, Generator, day_curve
from ottla.demo.world import World

EVENTS = 20_000


@pytest.fixture(scope="module")
def world() -> World:
    return World.make(seed=3)


@pytest.fixture(scope="module")
def emissions(world: World) -> list[Emission]:
    return list(islice(Generator(world, seed=3, per_s=2000), EVENTS))


def test_the_same_seed_gives_the_same_events(world: World, emissions: list[Emission]) -> None:
    assert list(islice(Generator(world, seed=3, per_s=2000), 500)) == emissions[:500]
    assert list(islice(Generator(world, seed=4, per_s=2000), 500)) != emissions[:500]


def test_events_come_in_the_order_in_which_they_are_due(emissions: list[Emission]) -> None:
    assert all(one.due_ms <= other.due_ms for one, other in pairwise(emissions))
    assert len({emission.number for emission in emissions}) == EVENTS


def test_everything_that_is_to_be_planted_is(emissions: list[Emission]) -> None:
    planted = Counter(emission.planted for emission in emissions)
    assert planted.keys() == {
        *("", "burst", "travel", "large"),
        *("late", "very-late", "duplicate", "malformed"),
    }
    assert planted[""] > 0.9 * EVENTS


def test_no_event_is_later_than_what_is_remembered(emissions: list[Emission]) -> None:
    late = {"": 0.0}
    for emission in emissions:
        if emission.payment is not None:
            minutes = (emission.due_ms - emission.payment.at_ms) / rules.MINUTE_MS
            late[emission.planted] = max(late.get(emission.planted, 0), minutes)
    assert max(late.values()) < rules.MEMORY_MINUTES / 2
    assert late["very-late"] > late["late"] > 1 > late[""]


def test_duplicates_have_the_id_and_the_bytes_of_their_first(emissions: list[Emission]) -> None:
    first: dict[str, bytes] = {}
    for emission in emissions:
        if emission.payment is None:
            continue
        known = first.setdefault(emission.payment.id, emission.value)
        assert known == emission.value
        assert (emission.planted == "duplicate") == (known is not emission.value)


def test_values_are_json_of_the_payment_with_its_card_as_key(emissions: list[Emission]) -> None:
    some = next(emission for emission in emissions if emission.payment is not None)
    assert some.payment is not None
    fields = json.loads(some.value)
    assert fields["id"] == some.payment.id
    assert 0 <= fields["at_ms"] - STORY_BEGINS.timestamp() * 1000 < rules.MINUTE_MS
    assert some.key.decode() == some.payment.card


def test_no_two_malformed_events_are_alike(emissions: list[Emission]) -> None:
    spoiled = [emission.value for emission in emissions if emission.payment is None]
    assert len(set(spoiled)) == len(spoiled) > 20


def test_the_day_has_a_quiet_night_and_a_busy_noon(emissions: list[Emission]) -> None:
    by_hour = [day_curve(hour * 3_600_000) for hour in range(24)]
    assert max(by_hour) == pytest.approx(1, abs=0.1)
    assert min(by_hour) < 0.1
    seconds = (emissions[-1].due_ms - emissions[0].due_ms) / 1000 / SPEED
    expected = 2000 * day_curve(emissions[0].due_ms)
    assert EVENTS / seconds == pytest.approx(expected, rel=0.3)


def test_the_pipeline_takes_every_payment_and_no_malformed_event(
    emissions: list[Emission],
) -> None:
    pytest.importorskip("pyspark")
    from ottla.demo.intake import payment_in

    for emission in emissions:
        if emission.payment is not None:
            assert payment_in(emission.value) == emission.payment._asdict()
        else:
            with pytest.raises((ValueError, KeyError, TypeError)):
                payment_in(emission.value)
