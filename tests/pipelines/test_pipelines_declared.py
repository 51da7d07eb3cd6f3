"""What YAML pipelines do with records, on the session that all tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_tools import Pipelines

from ottla.pipelines.context import Context
from ottla.pipelines.declared.read import read_declaration
from ottla.pipelines.declared.run import DeclaredPipeline
from ottla.pipelines.errors import StepFailed
from ottla.pipelines.progress import QueryFigures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Any]
"""Gives the progress of the last batch."""


@pytest.fixture
def topics(tmp_path: Path, bootstrap: str) -> Pipelines:
    return Pipelines(tmp_path, bootstrap)


@pytest.fixture
def run(spark: SparkSession, topics: Pipelines) -> Run:
    """Runs a text over what is there; the same checkpoint each time."""

    def go(text: str, name: str = "p", **more: Any) -> Any:
        file = topics.write(f"{name}.yaml", text)
        context = Context(
            name,
            checkpoints=str(topics.folder / f"checkpoints-{name}"),
            connection={"kafka.bootstrap.servers": topics.bootstrap},
            trigger={"availableNow": True},
            **more,
        )
        query = DeclaredPipeline(read_declaration(file), context, [topics.folder]).start(spark)
        query.awaitTermination()
        return json.loads(query.lastProgress.json) if query.lastProgress else None

    return go


def values(records: list[tuple[bytes | None, bytes | None]]) -> list[Any]:
    return sorted((json.loads(value or b"null") for _, value in records), key=str)


def test_records_that_do_not_fit_go_to_the_dead_letters_and_the_others_on(
    topics: Pipelines, topic: str, run: Run
) -> None:
    topics.create(topic, f"{topic}.out", f"{topic}.bad", partitions=1)
    topics.send(topic, [(b"a", b'{"n": 1}'), (b"b", b"{oops"), (b"c", b'{"n": "x"}')])
    text = (
        f"source: {{topic: {topic}, format: json, schema: n long, "
        f"bad_values: dead-letters, dead_letters: {topic}.bad}}\n"
        f"steps: [{{with: {{m: n + 1}}}}]\n"
        f"sink: {{topic: {topic}.out}}\n"
    )
    figures = QueryFigures("p")
    figures.add([run(text)])
    assert (figures.as_json()["rows_in"], figures.as_json()["rows_out"]) == (3, 1)
    topics.send(topic, [(None, b'{"n": 5, "more": true}')])
    run(text)
    assert sorted(topics.read(f"{topic}.out"), key=str) == [
        (None, b'{"n":5,"m":6}'),
        (b"a", b'{"n":1,"m":2}'),
    ]
    assert topics.read(f"{topic}.bad") == [(b"b", b"{oops"), (b"c", b'{"n": "x"}')]


def test_several_sources_have_dead_letters_each(topics: Pipelines, topic: str, run: Run) -> None:
    bad = f"{topic}.bad", f"{topic}.worse"
    topics.create(topic, f"{topic}.b", f"{topic}.c", f"{topic}.out", *bad, partitions=1)
    topics.send(topic, [(b"a", b'{"n": 1}'), (b"b", b"{oops")])
    topics.send(f"{topic}.b", [(b"c", b"no"), (b"d", b'{"n": 2}'), (b"e", b"nor this")])
    topics.send(f"{topic}.c", [(b"f", b"3")])
    kept = "format: json, schema: n long, bad_values: dead-letters"
    figures = QueryFigures("p")
    figures.add(
        [
            run(
                f"sources:\n"
                f"  one: {{topic: {topic}, {kept}, dead_letters: {bad[0]}}}\n"
                f"  two: {{topic: {topic}.b, {kept}, dead_letters: {bad[1]}}}\n"
                f"  three: {{topic: {topic}.c, format: string}}\n"
                f"steps:\n"
                f"  - sql: select n from one union all select n from two\n"
                f"         union all select cast(value as long) as n from three\n"
                f"sink: {{topic: {topic}.out}}\n"
            )
        ]
    )
    assert values(topics.read(f"{topic}.out")) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert topics.read(bad[0]) == [(b"b", b"{oops")]
    assert topics.read(bad[1]) == [(b"c", b"no"), (b"e", b"nor this")]
    assert (figures.as_json()["rows_in"], figures.as_json()["rows_out"]) == (6, 3)


def test_updates_are_written_once_each_and_bad_values_skipped(
    topics: Pipelines, topic: str, run: Run
) -> None:
    topics.create(topic, f"{topic}.out", partitions=1)
    text = (
        f"source: {{topic: {topic}, format: csv, schema: 'who string, n long', bad_values: skip}}\n"
        f"steps:\n"
        f"  - sql: select who, sum(n) as total, count(*) as many from input group by who\n"
        f"sink: {{topic: {topic}.out, key: who, mode: update}}\n"
    )
    topics.send(topic, [(None, b"eve,1"), (None, b"bob,2"), (None, b"eve,x"), (None, b"eve,3")])
    run(text)
    topics.send(topic, [(None, b"eve,10")])
    run(text)
    found = topics.read(f"{topic}.out")
    assert [key for key, _ in found].count(b"eve") == 2
    assert dict(found) == {
        b"eve": b'{"who":"eve","total":14,"many":3}',
        b"bob": b'{"who":"bob","total":2,"many":1}',
    }


def test_a_stream_is_joined_with_files_and_named_views_can_be_used_later(
    topics: Pipelines, topic: str, run: Run
) -> None:
    topics.create(topic, f"{topic}.out-v2", partitions=1)
    topics.send(topic, [(b"1", b"one"), (b"2", b"two"), (b"3", b"three")])
    topics.write("people.csv", "1,ann\n3,cid\n")
    run(
        f"sources:\n"
        f"  events: {{topic: {topic}, format: string, starting: latest}}\n"
        f"  people: {{path: people.csv, format: csv, schema: 'id string, name string'}}\n"
        f"steps:\n"
        f"  - name: named\n"
        f"    sql: select name, value as word from events join people on id = cast(key as string)\n"
        f"  - filter: word <> 'one'\n"
        f"  - sql: select upper(name) as name, word from input\n"
        f"sink: {{topic: {topic}.out}}\n",
        suffix="-v2",
        from_earliest=True,
    )
    assert values(topics.read(f"{topic}.out-v2")) == [{"name": "CID", "word": "three"}]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            "  - filter: n > 1\n  - sql: select missing from input\n",
            r"step 2 \(sql, line 4\) failed: .*missing",
        ),
        ("  - select: n +\n", r"step 1 \(select, line 3\) failed: .*SYNTAX"),
        ("  - python: odd.py:odd\n", r"step 1 \(python, line 3\) failed: TypeError: odd gave int"),
    ],
)
def test_a_step_that_spark_refuses_is_named(
    topics: Pipelines, topic: str, run: Run, steps: str, expected: str
) -> None:
    topics.write("odd.py", "def odd(frame):\n    return 5\n")
    source = f"source: {{topic: {topic}, format: json, schema: n long}}\n"
    with pytest.raises(StepFailed, match=expected):
        run(f"{source}steps:\n{steps}sink: {{topic: out}}\n")
