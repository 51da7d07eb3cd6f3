"""One of each operation with state, through the API, from topic to topic, against plain Python.

The operators have their own tests, with random batches; here it counts that everything is wired.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from streams_tools import T0, In, Out, committed, create, send

from ottla.streams import (
    STREAM_TIME,
    App,
    Double,
    JoinWindow,
    Json,
    KeyValues,
    Long,
    Processor,
    Session,
    String,
    Tumbling,
)
from ottla.streams.operators.context import Context, ProcessorRecord
from ottla.streams.stores import Entry

MINUTE, GRACE, GAP = 60_000, 5_000, 8_000
KEYS = ["ann", "bob", "cy", "dee"]


class Adding(Processor):
    """Forwards the sum so far; every minute of stream time, a mark."""

    def init(self, context: Context) -> None:
        self._context = context
        self._sums = context.store("sums")
        context.schedule(timedelta(minutes=1), STREAM_TIME, self._mark)

    def process(self, record: ProcessorRecord) -> None:
        if record.value["amount"] == 13:
            raise ValueError("bad luck")
        total = (self._sums.get(record.key) or 0.0) + record.value["amount"]
        self._sums.put(record.key, total)
        self._context.forward(record.key, total)

    def _mark(self, _now: object) -> None:
        for key, _ in self._sums.all():
            self._context.forward(key, -1.0)


def topology(bootstrap: str, prefix: str) -> App:
    app = App(prefix, bootstrap_servers=bootstrap, dead_letters=f"{prefix}-dead")
    payments = app.stream(f"{prefix}-payments", value=Json("amount int"))
    people = app.table(f"{prefix}-people", value=Json("country string"))
    rates = app.global_table(f"{prefix}-rates", value=Json("rate int"))

    enriched = payments.left_join(
        people, lambda mine, row: {"amount": mine.amount, "country": row.country}, named="enrich"
    )
    enriched.left_join(
        rates, lambda mine, row: {**mine, "rate": row.rate}, on=lambda r: r.value.country
    ).to(f"{prefix}-rated")

    by_minute = payments.group_by_key().windowed_by(Tumbling("1 minute", grace="5 seconds"))
    totals = by_minute.agg(
        lambda r: {
            "total": F.sum(r.value.amount),
            "n": F.count("*"),
            "mean": F.avg(r.value.amount),
        },
        store="totals",
    )
    totals.to(f"{prefix}-totals")
    totals.suppress(named="closed").to(f"{prefix}-closed")

    sessions = payments.group_by_key().windowed_by(Session("8 seconds", grace="1 hour"))
    sessions.aggregate(
        0, lambda _k, v, n: n + v.amount, Long(), merger=lambda _k, a, b: a + b, store="sessions"
    ).to(f"{prefix}-sessions")

    clicks = app.stream(f"{prefix}-clicks")
    payments.left_join(
        clicks,
        lambda mine, theirs: {"amount": mine.amount, "click": theirs},
        JoinWindow("2 seconds", grace="1 minute"),
        named="pairs",
    ).to(f"{prefix}-pairs")

    countries = people.group_by(
        lambda r: (r.value.country, r.value.country), key=String(), named="regroup"
    ).count(store="countries")
    countries.to(f"{prefix}-countries")
    app.table(f"{prefix}-rates", value=Json("rate int")).join(
        countries, lambda rate, n: {"rate": rate.rate, "n": n}, named="both"
    ).to(f"{prefix}-both")

    payments.process(
        Adding,
        Double(),
        stores=[KeyValues("sums", String(), Double())],
        time=STREAM_TIME,
        named="adding",
    ).to(f"{prefix}-sums")
    return app


class Data:
    """People and rates first, then payments and clicks in the order of time."""

    def __init__(self, rng: random.Random, prefix: str) -> None:
        self.prefix = prefix
        self.people = [
            (key, rng.choice(["de", "fr", "it", None])) for key in [*KEYS, *rng.choices(KEYS, k=6)]
        ]
        self.rates = [("de", 2), ("fr", 3), ("it", 4), ("it", None)]
        self.payments = [
            (rng.choice(KEYS), rng.randrange(20), rng.randrange(4 * MINUTE)) for _ in range(60)
        ]
        self.clicks = [
            (rng.choice(KEYS), f"c{number}", rng.randrange(4 * MINUTE)) for number in range(20)
        ]
        self.payments.sort(key=lambda one: one[2])
        self.clicks.sort(key=lambda one: one[2])
        # Long after all others: closes windows, and tells that no partner can come any more.
        self.last = ("zoe", 1, 60 * MINUTE)

    def records(self) -> Iterable[In]:
        def topic(name: str) -> str:
            return f"{self.prefix}-{name}"

        for number, (key, country) in enumerate(self.people):
            value = {"country": country} if country else None
            yield In(topic("people"), key, value, T0 - 10_000 + number)
        for key, rate in self.rates:
            yield In(topic("rates"), key, {"rate": rate} if rate else None, T0 - 5_000)
        for key, amount, at in [*self.payments, self.last]:
            yield In(topic("payments"), key, {"amount": amount}, T0 + at)
        for key, click, at in [*self.clicks, ("zoe", "last", 60 * MINUTE + 10_000)]:
            yield In(topic("clicks"), key, click, T0 + at)


def test_every_operation_with_state_from_topic_to_topic(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    prefix = topic[-12:]
    data = Data(random.Random(seed), prefix)
    create(bootstrap, *(f"{prefix}-{name}" for name in ("payments", "people", "rates", "clicks")))
    send(bootstrap, data.records())
    running = topology(bootstrap, prefix).run_available(spark, checkpoints=tmp_path)

    def out(name: str) -> list[Out]:
        return committed(bootstrap, f"{prefix}-{name}")

    check_enriched(data, out("rated"))
    check_totals(data, out("totals"), out("closed"))
    check_sessions(data, out("sessions"))
    check_pairs(data, out("pairs"))
    check_tables(data, out("countries"), out("both"))
    check_sums(data, out("sums"), out("dead"))
    check_store(data, running.store("totals").windows("ann"))
    assert running.store("sums").get("zoe") == 1.0
    counts = {one.key: one.value for one in running.store("countries").all() if one.value}
    assert counts == countries_of(data)


def check_store(data: Data, stored: list[Entry]) -> None:
    """Windows that are not closed yet."""
    found = {one.window.start.timestamp() * 1000: one.value for one in stored if one.window}
    until = T0 + data.last[2] - GRACE
    assert found == {
        start: value
        for (key, start), value in totals_of(data).items()
        if key == "ann" and start + MINUTE > until
    }


def check_enriched(data: Data, found: list[Out]) -> None:
    people, rates = dict(data.people), dict(data.rates)
    expected = []
    for key, amount, _ in [*data.payments, data.last]:
        country = people.get(key)
        rate = rates.get(country) if country else None
        expected.append((key, amount, country, rate))
    shown = [
        (one.text, *(one.json[name] for name in ("amount", "country", "rate"))) for one in found
    ]
    assert sorted(map(str, shown)) == sorted(map(str, expected))


def totals_of(data: Data) -> dict[tuple[str, int], dict[str, Any]]:
    amounts: dict[tuple[str, int], list[int]] = {}
    for key, amount, at in [*data.payments, data.last]:
        start = (T0 + at) // MINUTE * MINUTE
        amounts.setdefault((key, start), []).append(amount)
    return {
        window: {"total": sum(some), "n": len(some), "mean": sum(some) / len(some)}
        for window, some in amounts.items()
    }


def check_totals(data: Data, updates: list[Out], closed: list[Out]) -> None:
    expected = totals_of(data)
    newest = {timed(one): one.json for one in updates}
    assert newest == expected
    final = [(timed(one), one.json) for one in closed]
    until = T0 + data.last[2] - GRACE
    assert sorted(map(str, final)) == sorted(
        str(one) for one in expected.items() if one[0][1] + MINUTE <= until
    )


def timed(one: Out) -> tuple[str, int]:
    """Key and start of a window, as Kafka Streams writes them."""
    assert one.key is not None
    return one.key[:-8].decode(), struct.unpack(">q", one.key[-8:])[0]


def check_sessions(data: Data, found: list[Out]) -> None:
    expected: dict[tuple[str, int, int], int] = {}
    for key in {key for key, _, _ in data.payments}:
        start = end = total = None
        for _, amount, at in sorted(
            (one for one in data.payments if one[0] == key), key=lambda p: p[2]
        ):
            if end is None or at > end + GAP:
                if end is not None:
                    expected[key, T0 + start, T0 + end] = total  # type: ignore[operator]
                start, total = at, 0
            end, total = at, total + amount  # type: ignore[operator]
        expected[key, T0 + start, T0 + end] = total  # type: ignore[operator,assignment]
    expected["zoe", T0 + data.last[2], T0 + data.last[2]] = 1
    newest = {}
    for one in found:
        assert one.key is not None
        end, start = struct.unpack(">qq", one.key[-16:])
        newest[one.key[:-16].decode(), start, end] = one.number
    assert {window: total for window, total in newest.items() if total is not None} == expected


def check_pairs(data: Data, found: list[Out]) -> None:
    expected = []
    for key, amount, at in data.payments:
        clicks = [
            click for other, click, when in data.clicks if other == key and abs(when - at) <= 2_000
        ]
        expected += [(key, amount, click) for click in clicks or [None]]
    shown = [(one.text, one.json["amount"], one.json["click"]) for one in found]
    assert sorted(map(str, shown)) == sorted(map(str, expected))


def countries_of(data: Data) -> dict[str, int]:
    return dict(Counter(country for country in dict(data.people).values() if country))


def check_tables(data: Data, countries: list[Out], both: list[Out]) -> None:
    counted = {one.text: one.number for one in countries}
    # A country that came and went may be there with none.
    assert {key: n for key, n in counted.items() if n} == countries_of(data)
    joined = {one.text: one.json for one in both}
    rates = {key: rate for key, rate in dict(data.rates).items() if rate}
    assert {key: row for key, row in joined.items() if row} == {
        key: {"rate": rates[key], "n": n} for key, n in counted.items() if key in rates
    }


def check_sums(data: Data, sums: list[Out], dead: list[Out]) -> None:
    expected: dict[str, list[float]] = {}
    unlucky = 0
    for key, amount, _ in [*data.payments, data.last]:
        if amount == 13:
            unlucky += 1
            continue
        so_far = expected.setdefault(key, [])
        so_far.append((so_far[-1] if so_far else 0.0) + amount)
    found: dict[str, list[float]] = {}
    for one in sums:
        assert one.value is not None
        (value,) = struct.unpack(">d", one.value)
        found.setdefault(str(one.text), []).append(value)
    assert {key: [v for v in values if v >= 0] for key, values in found.items()} == expected
    assert any(value < 0 for values in found.values() for value in values)
    letters = [one.headers["__streams.errors.node"] for one in dead]
    assert letters == [b"adding"] * unlucky
