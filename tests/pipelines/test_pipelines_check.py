"""`ottla pipeline check`: wrong columns are told with their line, and no Spark is started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.pipelines.run import check
from ottla.pipelines.checking.sql_names import find_unknown, selected
from ottla.pipelines.checking.streams import check_app
from ottla.pipelines.declared.schemas import parse_schema
from ottla.pipelines.errors import InvalidFile
from ottla.streams import App

ROOT = Path(__file__).parents[2]
OTTLA = Path(sys.executable).parent / "ottla"
COLUMNS = parse_schema(
    "account string, amount double, at timestamp, tags array<string>, "
    "shop struct<name: string, place: struct<city: string>>"
)
VIEWS = {"input": COLUMNS, "people": parse_schema("account string, name string"), "odd": None}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("amuont > 1", "amuont"),
        ("amount > 1 and acount = 'x'", "acount"),
        ("shop.nmae = 'x'", "nmae"),
        ("shop.place.town", "town"),
        ("case when amount > 1 then 'a' else accnt end", "accnt"),
        ("filter(tgs, x -> x > account)", "tgs"),
        ("filter(tags, x -> x > acount)", "acount"),
        ("round(amuont * 0.19, 2)", "amuont"),
        ("not amuont", "amuont"),
        ("`amuont` > 1", "amuont"),
    ],
)
def test_a_name_that_is_no_column_is_found(text: str, name: str) -> None:
    found = find_unknown(text, COLUMNS, {})
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "text",
    [
        "AMOUNT > 1 -- amuont",
        "account = 'amuont' or account like \"amuont%\"",
        "shop.place.city is not null",
        "cast(amount as decimal(10, 2)) between 1 and 2e3",
        "amount::double + 1.5d",
        "transform(tags, (tag, number) -> concat(tag, number))",
        "cast(shop as struct<label: string, deep: array<struct<x: int>>>).label",
        "date_trunc('hour', at) >= timestamp '2020-01-01' - interval 5 minutes",
        "extract(year from at) = 2020 and at < current_timestamp",
        "row_number() over (partition by account order by at desc rows between unbounded preceding "
        "and current row) as place",
        "`sum(amount)` > 1",
        "window(at, '1 minute').start as minute",
        "percentile_cont(0.5) within group (order by amount)",
        "named_struct('a', amount).a",
        "date_diff(day, at, current_date)",
        "extract(dow from at) = 1 or overlay(account placing 'x' from 2) = account collate UNICODE",
        "count(distinct account) filter (where amount > 1)",
        "/* amuont */ account rlike r'\\d+'",
    ],
)
def test_what_spark_takes_is_not_doubted(text: str) -> None:
    assert find_unknown(text, COLUMNS, {}) is None


@pytest.mark.parametrize(
    ("query", "wrong", "columns"),
    [
        ("select account, sum(amuont) t from input group by account", "amuont", {"account", "t"}),
        ("select input.amont from input", "amont", {"amont"}),
        ("select * from input where amuont > 1", "amuont", set(COLUMNS)),
        ("select i.amount, p.name n from input i join people p using (account)", None,
         {"amount", "n"}),
        ("with t as (select account a from input) select a from t", None, None),
        ("select a.account, amount as value from input a, people b", None, {"account", "value"}),
        ("select distinct account from input union select name from people", None, {"account"}),
        ("select account, tag from input lateral view explode(tags) t as tag", None, None),
        ("select window.start as minute, count(*) as n from input group by window(at, '1 minute')",
         None, {"minute", "n"}),
        ("select (select max(amount) from input) top, name from people", None, {"top", "name"}),
    ],
)  # fmt: skip
def test_queries_are_followed(query: str, wrong: str | None, columns: set[str] | None) -> None:
    found = find_unknown(query, {**COLUMNS, **(VIEWS["people"] or {})}, VIEWS)
    assert (found.name if found else None) == wrong
    given = selected(query, VIEWS)
    assert (None if given is None else set(given)) == columns


YAML = """\
source:
  topic: payments
  format: json
  schema: account string, amount double, at timestamp
steps:
  - filter: amount > 1000
  - with:
      tax: round(amount * 0.19, 2)
  - name: sums
    sql: |
      select account, window.start as minute,
             sum(tax) as total
      from input group by account, window(at, '1 minute')
  - select: [account, minute, total]
  - drop: minute
sink:
  topic: big-payments
  key: account
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("amount > 1000", "amuont > 1000", 6, "steps[0].filter: there is no column 'amuont'"),
        ("round(amount", "round(amuont", 8, "steps[1].with: there is no column 'amuont'"),
        ("sum(tax)", "sum(tox)", 12, "steps[2].sql: there is no column 'tox'"),
        ("minute, total]", "minute, totl]", 14, "steps[3].select: there is no column 'totl'"),
        ("key: account", "key: acount", 18, "sink.key: there is no column 'acount'"),
        ("key: account", "key: tax", 18, "sink.key: there is no column 'tax'"),
    ],
)
def test_a_wrong_column_of_yaml_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    file = tmp_path / "payments.yaml"
    file.write_text(YAML)
    assert check(file, full=False) == []
    file.write_text(YAML.replace(old, new))
    with pytest.raises(InvalidFile) as error:
        check(file, full=False)
    assert str(error.value).startswith(f"{file}:{line}: {told}; there are: ")


STREAMS = """\
from pyspark.sql import functions as F

from ottla.streams import App, Json, String, Tumbling

app = App("alerts")
payments = app.stream("payments", value=Json("account string, amount double, at timestamp"))
people = app.global_table("people", value=Json("name string"))
taxed = (
    payments.filter(lambda r: (r.value.amount > 1000) & r.value.isNotNull())
    .map_values(
        lambda r: {
            **r.value,
            "tax": F.round(r.value.amount * 0.19, 2),
        }
    )
    .join(people, lambda mine, theirs: {**mine, "name": F.upper(theirs.name)})
)
windows = taxed.group_by(lambda r: r.value.name, String()).windowed_by(Tumbling("1 minute"))
windows.agg(lambda r: {"n": F.count("*"), "total": F.sum(r.value.tax)}).to("sums")
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("r.value.amount > 1000", "r.value.amuont > 1000", 9, "there is no field 'amuont'"),
        ("r.value.amount * 0.19", "F.col('amuont')", 13, "there is no column 'amuont'"),
        ("theirs.name", "theirs.nmae", 16, "there is no field 'nmae'; there are: name"),
        ("r.value.tax", "r.value.tux", 19, "there is no field 'tux'; there are: account, amount,"),
        ("r.value.tax", "'value.tux'", 19, "there is no column 'tux'"),
        (") & r", ") and r", 9, "conditions on columns are joined by & | ~"),
    ],
)
def test_a_wrong_field_of_streams_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    file = tmp_path / "alerts.py"
    file.write_text(STREAMS)
    assert check(file, full=False) == []
    file.write_text(STREAMS.replace(old, new))
    with pytest.raises(InvalidFile) as error:
        check(file, full=False)
    assert str(error.value).startswith(f"{file}:{line}: {told}")
    assert "KSTREAM" not in str(error.value)


def test_no_example_is_doubted() -> None:
    from ottla.demo.pipeline import payments_app

    for file in (ROOT / "examples" / "pipelines").glob("*.yaml"):
        check(file, full=False)
    check(ROOT / "examples" / "pipelines" / "alerts.py", full=False)
    check_app(payments_app("localhost:9092"), Path("pipeline.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs" / "streams").glob("*.md")]
    programs = [
        code
        for page in pages
        for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
        if "app = App(" in code
    ]
    assert len(programs) >= 4
    for code in programs:
        names: dict[str, object] = {}
        exec(
            compile(re.split(r"\n.*(?:spark_session\(|app\.start\()", code)[0], "page.py", "exec"),
            names,
        )
        app = names["app"]
        assert isinstance(app, App)
        check_app(app, Path("page.py"))


def test_the_command_starts_no_spark_and_ends_with_2(tmp_path: Path) -> None:
    for name, text in {
        "alerts.py": STREAMS.replace("value.tax", "value.tux"),
        "payments.yaml": YAML.replace("amount >", "amuont >"),
    }.items():
        (tmp_path / name).write_text(text)
        environment = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
        done = subprocess.run(
            [OTTLA, "pipeline", "check", name],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert re.match(rf"ottla: {name}:\d+: .*there is no .*\n$", done.stderr)
