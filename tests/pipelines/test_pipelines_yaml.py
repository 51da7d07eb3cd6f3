"""YAML pipelines, read: what they mean, and what is said of those that cannot be run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.durations import spark_interval
from ottla.pipelines.declared.declaration import FileSink, FileSource, TopicSink, TopicSource
from ottla.pipelines.declared.read import read_declaration
from ottla.pipelines.declared.schemas import InvalidSchema, parse_schema
from ottla.pipelines.errors import InvalidFile

FULL = """\
name: big-payments
source:
  topic: payments
  format: json
  schema: account string, amount double, at timestamp
  starting: latest
  bad_values: dead-letters
  dead_letters: payments-bad
  options: {maxOffsetsPerTrigger: 1000}
steps:
  - filter: amount > 1000
  - watermark: {column: at, delay: 10 seconds}
  - name: big
    sql: |
      select account, count(*) as n
      from input group by account
  - python: steps.py:enrich
  - with: {twice: n * 2, thrice: n * 3}
  - select: [account, twice]
  - drop: twice
sink: {topic: big, key: account, mode: update, options: {kafka.acks: all}}
trigger: 1 second
spark: {spark.sql.shuffle.partitions: 4}
connection: {bootstrap.servers: "kafka:9092"}
"""


def write(folder: Path, text: str) -> Path:
    (folder / "steps.py").write_text("def enrich(frame):\n    return frame\nother = enrich\n")
    file = folder / "payments.yaml"
    file.write_text(text)
    return file


def test_everything_a_file_can_say_is_read(tmp_path: Path) -> None:
    found = read_declaration(write(tmp_path, FULL))
    source, sink = found.sources[0], found.sink
    assert isinstance(source, TopicSource)
    assert isinstance(sink, TopicSink)
    assert (found.name, found.trigger) == ("big-payments", "1 second")
    assert (source.choice, source.starting) == (("subscribe", "payments"), "latest")
    assert (source.bad_values, found.dead_letters) == ("dead-letters", ["payments-bad"])
    assert source.options == {"maxOffsetsPerTrigger": "1000"}
    assert [step.kind for step in found.steps] == [
        *("filter", "watermark", "sql", "python", "with", "select", "drop")
    ]
    assert found.steps[2].label == "step 3 'big' (sql, line 13)"
    assert found.steps[3].file == tmp_path / "steps.py"
    assert found.steps[4].arguments == ("twice", "n * 2", "thrice", "n * 3")
    assert (sink.topic, sink.key, sink.mode) == ("big", "account", "update")
    assert found.spark == {"spark.sql.shuffle.partitions": "4"}
    assert found.connection == {"kafka.bootstrap.servers": "kafka:9092"}


def test_raw_landing_is_two_lines_and_paths_start_from_the_file(tmp_path: Path) -> None:
    found = read_declaration(write(tmp_path, "source: payments\nsink: {path: lake/payments}\n"))
    assert found.name == "payments"
    assert found.sink == FileSink(str(tmp_path / "lake/payments"), line=2)
    other = read_declaration(tmp_path / "payments.yaml", base=Path("/elsewhere"))
    assert isinstance(other.sink, FileSink)
    assert other.sink.path == "/elsewhere/lake/payments"


def test_a_stream_is_joined_with_files(tmp_path: Path) -> None:
    found = read_declaration(
        write(
            tmp_path,
            "sources:\n"
            "  orders: {topics: [a, b]}\n"
            "  people: {path: 's3a://lake/people', format: csv, schema: 'id int, name string'}\n"
            "steps:\n  - sql: select * from orders join people on id = key\n"
            "sink: {topic: out}\n",
        )
    )
    orders, people = found.sources
    assert isinstance(orders, TopicSource)
    assert isinstance(people, FileSource)
    assert (orders.choice, people.path) == (("subscribe", "a,b"), "s3a://lake/people")


SINK = "sink: {topic: out}\n"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", None, "is empty"),
        ("source: [a\n", 2, "expected"),
        ("just text\n", 1, "wants a mapping"),
        ("source: a\n", 1, "wants `sink:`"),
        (SINK, 1, "wants either `source:`"),
        ("source: a\nsorce: b\n" + SINK, 2, "sorce: is not known here; .*is source meant?"),
        ("source: a\nsource: b\n" + SINK, 2, "source: is there a second time"),
        ("source: a/b\n" + SINK, 1, "is no name of a topic"),
        ("source: {topic: a, topics: [b]}\n" + SINK, 1, "not several"),
        (
            "source:\n  topic: a\n  format: jsn\n" + SINK,
            3,
            "source.format: 'jsn' is none of .*json meant",
        ),
        ("source:\n  topic: a\n  format: json\n" + SINK, 1, "format json wants a schema"),
        ("source:\n  topic: a\n  schema: b int\n" + SINK, 3, "only if format is json or csv"),
        (
            "source:\n  topic: a\n  format: json\n  schema: b strng\n" + SINK,
            4,
            "'strng' is no type; is string meant?",
        ),
        (
            "source:\n  topic: a\n  options: {maxOffsetPerTrigger: 5}\n" + SINK,
            1,
            "did you mean 'maxOffsetsPerTrigger'",
        ),
        ("source:\n  topic: a\n  options: {kafka.acks: {}}\n" + SINK, 3, "not a mapping"),
        ("source: a\nsteps:\n  - filter: x > 1\n    sql: select 1\n" + SINK, 3, "not several"),
        ("source: a\nsteps:\n  - fliter: x > 1\n" + SINK, 3, "is filter meant?"),
        ("source: a\nsteps:\n  - filter: 5\n" + SINK, 3, r"steps\[0\].filter: wants an expression"),
        ("source: a\nsteps:\n  - python: steps.py:enrch\n" + SINK, 3, "it has enrich, other"),
        ("source: a\nsteps:\n  - python: no.py:f\n" + SINK, 3, "No such file"),
        (
            "source: a\nsteps:\n  - watermark: {column: at, delay: soon}\n" + SINK,
            3,
            "'soon' is no length of time; write 10 seconds",
        ),
        ("source: a\nsink: {topic: b, path: c}\n", 2, "wants either `topic: NAME` or `path"),
        (
            "source: a\nsink: {path: c, format: xml}\n",
            2,
            "'xml' is none of parquet, json, csv, orc",
        ),
        ("source: a\nsink: {topic: b, options: {deliveryGarantee: x}}\n", 2, "deliveryGuarantee"),
        ("source: a\nspark: {shuffle: 4}\n" + SINK, 2, "names begin with `spark.`"),
        ("source: a\nconnection: {bootstrp: x}\n" + SINK, 2, "no Kafka client has such a setting"),
        ("name: /x\nsource: a\n" + SINK, 1, "is no name"),
        (
            "source: {topic: a, format: json, schema: b int, bad_values: dead-letters}\n" + SINK,
            1,
            "go together",
        ),
        ("sources: {a: b, c: d}\n" + SINK, 1, "want an `sql:` step first"),
        ("sources: {a: {path: x}}\n" + SINK, 1, "files alone are no stream"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(
    tmp_path: Path, text: str, line: int | None, expected: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InvalidFile, match=expected) as error:
        read_declaration(file)
    assert str(error.value).startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert "\n" not in str(error.value)


def test_aliases_of_aliases_are_refused_at_once(tmp_path: Path) -> None:
    """Seven levels of nine aliases each stand for five million values."""
    lists = ["a0: &a0 [x]"]
    lists += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8)]
    maps = ["b0: &b0 {x: 1}"]
    maps += [f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}" for n in range(1, 8)]
    for lines in (lists, maps):
        file = write(tmp_path, "\n".join(lines) + "\n")
        began = time.monotonic()
        with pytest.raises(InvalidFile, match="more than 10000 values, counting each alias"):
            read_declaration(file)
        assert time.monotonic() - began < 2


def test_anchors_are_for_what_is_said_twice(tmp_path: Path) -> None:
    text = (
        "sources:\n"
        "  orders: &topic {topic: orders, format: json, schema: &schema 'id int, item string'}\n"
        "  returns:\n    <<: *topic\n    topic: returns\n"
        "  prices: {path: prices, schema: *schema}\n"
        "steps:\n  - sql: select * from orders join returns using (id) join prices using (id)\n"
    )
    orders, returns, prices = read_declaration(write(tmp_path, text + SINK)).sources
    assert isinstance(orders, TopicSource)
    assert isinstance(returns, TopicSource)
    assert (orders.choice[1], returns.choice[1]) == ("orders", "returns")
    assert returns.schema == prices.schema == "id int, item string"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "source: {topic: a, format: json, schema: '" + "a struct<" * 5000 + "'}\n" + SINK,
        "source: a\ntrigger: 2001-13-01\n" + SINK,
    ],
)
def test_what_no_parser_can_hold_is_told_and_not_thrown(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidFile):
        read_declaration(write(tmp_path, text))


@pytest.mark.parametrize(
    "schema",
    [
        "a int",
        "a int, b string not null",
        "`odd name` decimal(10,2), c array<map<string, struct<x: int, y: array<double>>>>",
        "a: timestamp, b binary",
    ],
)
def test_schemas_that_spark_takes_are_taken(schema: str) -> None:
    assert parse_schema(schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("a", "its type is missing"),
        ("a int b int", "comma"),
        ("a array<int", "wants '>'"),
        ("a map<string>", "wants ','"),
        ("a int, A string", "twice"),
        ("5 int", "no name"),
    ],
)
def test_schemas_that_spark_would_refuse_are_refused(schema: str, expected: str) -> None:
    with pytest.raises(InvalidSchema, match=expected):
        parse_schema(schema)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("5s", "5 seconds"), ("500 ms", "500 milliseconds"), ("1 minute", "1 minute"), ("now", None)],
)
def test_lengths_of_time_are_those_of_spark(text: str, meant: str | None) -> None:
    assert spark_interval(text) == meant


def test_a_file_is_checked_without_pyspark(tmp_path: Path) -> None:
    file = write(tmp_path, FULL)
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from pathlib import Path\n"
        "import ottla.cli.pipelines.commands, ottla.cli.pipelines.run\n"
        "from ottla.pipelines import control, reprocess, status\n"
        "from ottla.pipelines.application import check_file\n"
        f"print(check_file(Path({str(file)!r})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("big-payments\n", "")
