"""Operations on single records, all in one application, against a model in plain Python.

Random records, random limits of batches, and a restart from the checkpoint in the middle: each
record must come out once, in its place, or be a dead letter with the reason.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from streams_tools import T0, In, Out, committed, create, send

from ottla.streams import App, BadTopology, Json, Long, QueryFailed, String, TopicsMissing

WHEN = datetime.fromtimestamp((T0 - 750) / 1000, UTC).isoformat(timespec="milliseconds")
PAYMENT = "account string, amount int, name string, at timestamp"


def tax(r: Any) -> dict[str, Any]:
    if r.value.amount == 13:
        raise ValueError("thirteen brings bad luck")
    if r.value.amount == 14:
        return {"tax": "not a number"}
    return {"tax": r.value.amount * 2, "by": r.value.name}


def topology(bootstrap: str, prefix: str) -> App:
    app = App(prefix, bootstrap_servers=bootstrap, dead_letters=f"{prefix}-dead")
    payments = app.stream(
        f"{prefix}-in",
        value=Json(PAYMENT),
        timestamp=lambda r: r.value.at,
        named="payments",
    )

    def out(name: str) -> str:
        return f"{prefix}-{name}"

    big = payments.filter(lambda r: r.value.amount >= 50)
    big.map_values(lambda r: {**r.value, "double": r.value.amount * 2}).to(out("big"))
    payments.filter_not(lambda r: r.value.name == "ann").map(
        lambda r: (r.value.name, r.value.amount.cast("long"))
    ).to(out("mapped"))
    low, middle, rest = payments.branch(
        lambda r: r.value.amount < 10, lambda r: r.value.amount < 20, named="sizes"
    )
    low.merge(rest).select_key(lambda r: r.value.name).to(out("merged"))
    middle.flat_map_values(lambda r: F.array(r.value.name, r.key), String()).to(out("flat"))
    payments.map_values(tax, Json("tax int, by string"), python=True, named="tax").to(out("tax"))
    parts = payments.split(
        python=True, odd=lambda r: r.value.amount % 2 == 1, tens=lambda r: r.value.amount % 10 == 0
    )
    parts["odd"].flat_map(
        lambda r: [(r.key, r.value.amount)] * (r.value.amount % 3),
        key=String(),
        value=Long(),
        python=True,
    ).to(out("odd"))
    parts["tens"].filter(lambda r: r.value.amount > 0, python=True).to(out("tens"))
    payments.map_values(lambda r: r.value.name).repartition(named="spread", partitions=3).to(
        out("spread")
    )
    return app


def some_payments(topic: str, rng: random.Random, count: int) -> list[In]:
    made = []
    for number in range(count):
        value: Any = {
            "account": f"a{number}",
            "amount": rng.randrange(60),
            "name": rng.choice(["ann", "bob", "cy"]),
            "at": WHEN if rng.random() < 0.5 else None,
        }
        if rng.random() < 0.1:
            value = rng.choice([b"{", b"\xff", b"17", json.dumps(value).encode() + b"}"])
        made.append(In(topic, f"k{rng.randrange(4)}", value, T0 + number, [("h", b"1")]))
    return made


class Model:
    """What should be in each topic, in the order of each key."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.topics: dict[str, list[tuple[str, Any]]] = {}
        self.dead: list[tuple[str, str]] = []

    def _out(self, name: str, key: str, value: Any) -> None:
        self.topics.setdefault(f"{self._prefix}-{name}", []).append((key, value))

    def take(self, one: In) -> None:
        if isinstance(one.value, bytes):
            self.dead.append(("payments", "DeserializationError"))
            return
        value, key = one.value, str(one.key)
        amount, name = value["amount"], value["name"]
        if amount >= 50:
            self._out("big", key, value | {"double": amount * 2})
        if name != "ann":
            self._out("mapped", name, amount)
        if 10 <= amount < 20:
            self._out("flat", key, name)
            self._out("flat", key, key)
        else:
            self._out("merged", name, value)
        if amount in (13, 14):
            self.dead.append(("tax", "ValueError" if amount == 13 else "Arrow"))
        else:
            self._out("tax", key, {"tax": amount * 2, "by": name})
        if amount % 2:
            for _ in range(amount % 3):
                self._out("odd", key, amount)
        elif amount % 10 == 0 and amount > 0:
            self._out("tens", key, value)
        self._out("spread", key, name)


def shown(topic: str, one: Out) -> tuple[str, Any]:
    """Key and value as the model has them."""
    kind = topic.rpartition("-")[2]
    assert one.value is not None
    if kind in ("mapped", "odd"):
        return str(one.text), one.number
    if kind in ("flat", "spread"):
        return str(one.text), one.value.decode()
    value = one.json
    if isinstance(value, dict) and value.get("at"):
        value["at"] = WHEN
    return str(one.text), value


def test_each_record_comes_out_once_or_is_a_dead_letter(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    prefix = topic[-12:]
    create(bootstrap, f"{prefix}-in")
    app = topology(bootstrap, prefix)
    model = Model(prefix)
    for limit in (None, 40):
        records = some_payments(f"{prefix}-in", rng, 60)
        send(bootstrap, records)
        for one in records:
            model.take(one)
        app.run_available(spark, checkpoints=tmp_path, max_records_per_batch=limit)
    for name, expected in model.topics.items():
        found = committed(bootstrap, name)
        assert ordered(shown(name, one) for one in found) == ordered(expected), name
        for one in found:
            assert one.headers == {"h": b"1"}
            assert T0 <= one.at < T0 + 60 or one.at == T0 - 750
    check_letters(committed(bootstrap, f"{prefix}-dead"), model, f"{prefix}-in")


def ordered(rows: Any) -> dict[str, list[Any]]:
    """By key, in order; a merge has no order between its streams."""
    made: dict[str, list[Any]] = {}
    for key, value in rows:
        made.setdefault(key, []).append(value)
    return {key: sorted(map(json.dumps, values)) for key, values in made.items()}


def check_letters(letters: list[Out], model: Model, source: str) -> None:
    found = []
    places = set()
    for one in letters:
        told = {name.rpartition(".")[2]: value for name, value in one.headers.items()}
        assert told["h"] == b"1"
        assert told["topic"] == source.encode()
        assert told["message"]
        places.add((told["partition"], told["offset"], told["node"]))
        kind = told["exception"].decode()
        found.append((told["node"].decode(), "Arrow" if kind.startswith("Arrow") else kind))
    assert sorted(found) == sorted(model.dead)
    assert len(places) == len(letters)


def test_a_record_that_fails_stops_the_query_and_is_named(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    send(bootstrap, [In(topic, "k", 1, partition=1), In(topic, "k", 0, partition=1)])
    app = App(topic, bootstrap_servers=bootstrap)
    app.stream(topic, value=Json("int")).map_values(
        lambda r: 1 // r.value, Long(), python=True, named="inverse"
    ).to(f"{topic}-out")
    with pytest.raises(QueryFailed) as failed:
        app.run_available(spark, checkpoints=tmp_path)
    assert failed.value.node == "inverse"
    message = str(failed.value)
    assert "inverse: ZeroDivisionError: integer division or modulo by zero" in message
    assert f"record {topic}/partition 1/offset 1" in message
    assert committed(bootstrap, f"{topic}-out") == []


def test_mistakes_are_told_before_anything_runs(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    def started(app: App) -> None:
        app.run_available(spark, checkpoints=tmp_path)

    app = App(topic, bootstrap_servers=bootstrap)
    app.stream(f"{topic}-none").to("out")
    with pytest.raises(TopicsMissing, match=f"{topic}-none. Create them first"):
        started(app)
    create(bootstrap, topic)
    app = App(topic, bootstrap_servers=bootstrap)
    stream = app.stream(topic, value=Json("amount int"))
    stream.filter(lambda r: r.value.amuont > 1, named="typo").to("out")
    with pytest.raises(BadTopology, match="typo: there is no field 'amuont'; there are: amount"):
        started(app)
    app = App(topic, bootstrap_servers=bootstrap)
    stream = app.stream(topic, value=Json("amount int"))
    stream.merge(stream.map_values(lambda r: "x"), named="mixed").to("out")
    with pytest.raises(BadTopology, match="mixed: values are struct<amount:int> in one stream"):
        started(app)
    app = App(topic, bootstrap_servers=bootstrap)
    app.stream(topic).map_values(lambda r: r.value == "x", named="flag").to("out")
    with pytest.raises(BadTopology, match="value of flag is of type boolean"):
        started(app)
