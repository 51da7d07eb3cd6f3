"""A running application: word count over stops and starts, its state, and what it refuses."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from streams_tools import In, Out, by_key, committed, create, send

from ottla.streams import App, StoreMissing, Stream, TopologyChanged, Tumbling

WORDS = ["log", "table", "stream", "topic", "key"]


def words_of(app: App, topic: str) -> Stream:
    return app.stream(f"{topic}-lines").flat_map_values(lambda r: F.split(r.value, " "))


def word_count(bootstrap: str, topic: str) -> App:
    app = App(topic, bootstrap_servers=bootstrap)
    words = words_of(app, topic)
    counts = words.group_by(lambda r: r.value).count(store="counts")
    counts.to(f"{topic}-counts")
    # A second operation with state, behind an internal topic: the most of any word of a length.
    by_length = counts.to_stream().select_key(lambda r: F.length(r.key), named="by-length")
    by_length.group_by_key().agg(lambda r: F.max(r.value), store="most").to(f"{topic}-most")
    return app


def some_lines(rng: random.Random, topic: str) -> tuple[list[In], Counter[str]]:
    lines = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 6))) for _ in range(25)]
    return [In(f"{topic}-lines", None, line) for line in lines], Counter(" ".join(lines).split())


def check_counts(found: list[Out], counts: Counter[str]) -> None:
    """Each update is greater than the one before, and the last is right: nothing counted twice."""
    updates = by_key(found)
    assert {word: some[-1].number for word, some in updates.items()} == counts
    for some in updates.values():
        numbers = [one.number or 0 for one in some]
        assert numbers == sorted(set(numbers))


def test_words_are_counted_once_over_stops_and_starts(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    topic = topic[-12:]
    create(bootstrap, f"{topic}-lines")
    counts: Counter[str] = Counter()

    def more() -> None:
        lines, words = some_lines(rng, topic)
        send(bootstrap, lines)
        counts.update(words)

    app = word_count(bootstrap, topic)
    more()
    app.run_available(spark, checkpoints=tmp_path, max_records_per_batch=rng.randrange(10, 20))
    more()
    with app.start(spark, checkpoints=tmp_path) as running:
        running.process_all_available()
        more()
        running.process_all_available()
        assert running.is_active
        store = running.store("counts")
        assert {entry.key: entry.value for entry in store.all()} == counts
        assert store.get("stream") == counts["stream"]
        assert store.get("nobody wrote that") is None
        some = store.range("log", "table")
        assert [entry.key for entry in some] == sorted(w for w in counts if "log" <= w <= "table")
        with pytest.raises(StoreMissing, match="there are: counts, most"):
            running.store("other")
    assert not running.is_active
    check_counts(committed(bootstrap, f"{topic}-counts"), counts)
    most = {one.key: one.number for one in committed(bootstrap, f"{topic}-most")}
    by_length: dict[bytes, list[int]] = {}
    for word, count in counts.items():
        by_length.setdefault(len(word).to_bytes(4, "big"), []).append(count)
    assert most == {length: max(some) for length, some in by_length.items()}
    check_refusals(spark, bootstrap, topic, tmp_path)


def check_refusals(spark: SparkSession, bootstrap: str, topic: str, checkpoints: Path) -> None:
    """Programs that do not fit the checkpoint are told why; one that does is not disturbed."""
    app = App(topic, bootstrap_servers=bootstrap)
    words = words_of(app, topic).group_by(lambda r: r.value)
    words.windowed_by(Tumbling("1 minute")).count(store="counts").to(f"{topic}-counts")
    with pytest.raises(TopologyChanged) as refused:
        app.run_available(spark, checkpoints=checkpoints)
    assert "it was: count per key; it is: count per tumbling 1 minute" in str(refused.value)
    assert "app.renamed" in str(refused.value)
    app = App(topic, bootstrap_servers=bootstrap)
    words_of(app, topic).group_by(lambda r: F.length(r.value)).count(store="counts").to("x")
    with pytest.raises(TopologyChanged, match="its types were key string, value bigint; they are"):
        app.run_available(spark, checkpoints=checkpoints)
    app = App(topic, bootstrap_servers=bootstrap)
    create(bootstrap, f"{topic}-other")
    app.stream(f"{topic}-other").group_by_key().count(store="counts").to("x")
    with pytest.raises(TopologyChanged, match=f"it read {topic}-lines; it reads {topic}-other"):
        app.run_available(spark, checkpoints=checkpoints)
