"""The programs of the pages on streams can be built; word count is run as an example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from streams_tools import In, Out, committed, create, send

from ottla.streams import App, BadTopology

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "streams"
EXAMPLE = ROOT / "examples" / "streams_word_count.py"


def blocks(page: str) -> list[str]:
    found: list[str] = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.S)
    return [code for code in found if "ottla.streams" in code and "spark_" not in code]


BLOCKS = [
    pytest.param(code, id=f"{page}-{number}")
    for page in ("README.md", "from-faust.md", "from-quix.md")
    for number, code in enumerate(blocks(page))
]


def built(code: str) -> App:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, "page", "exec"), names)
    app = names["app"]
    assert isinstance(app, App)
    return app


@pytest.mark.parametrize("code", BLOCKS)
def test_the_programs_of_the_page_can_be_built(code: str) -> None:
    app = built(code)
    assert "Sub-topology: 0" in app.describe()
    with pytest.raises(BadTopology):
        app.picture(form="png")


def test_the_page_has_programs() -> None:
    assert len(BLOCKS) >= 10


def test_the_programs_with_state_on_the_pages_for_faust_and_quix_give_what_they_say(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    def results(code: str, records: list[object]) -> list[Out]:
        """What the program makes of these records, in topics of this test alone."""
        number = len(list(tmp_path.iterdir()))
        code = code.replace("localhost:9092", bootstrap).replace('App("', f'App("{topic}-{number}')
        (source,) = re.findall(r'app\.stream\(\s*"(.*?)"', code)
        (target,) = re.findall(r'\.to\("(.*?)"\)', code)
        code = code.replace(f'app.stream("{source}"', f'app.stream("{topic}-{number}-in"')
        code = code.replace(f'.to("{target}")', f'.to("{topic}-{number}-out")')
        create(bootstrap, f"{topic}-{number}-in", partitions=1)
        send(bootstrap, [In(f"{topic}-{number}-in", "s1", one) for one in records])
        built(code).run_available(spark, checkpoints=tmp_path / str(number))
        return committed(bootstrap, f"{topic}-{number}-out")

    table, _ = blocks("from-faust.md")
    orders = [{"account": "a", "amount": 2.0}, {"account": "b", "amount": 3.0}]
    found = results(table, [*orders, {"account": "a", "amount": 5.0}])
    assert {one.text: one.json for one in found} == {"a": {"total": 7.0}, "b": {"total": 3.0}}

    totals = blocks("from-quix.md")[-1]
    readings = [{"sensor": "s1", "celsius": 35.0}, {"sensor": "s1", "celsius": 20.0}]
    found = results(totals, readings)
    assert [one.json["total"] for one in found] == [1, 2]


def test_the_word_count_of_the_readme_runs_and_is_read_as_it_says(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    page = (ROOT / "README.md").read_text()
    (code,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.S) if "App(" in one)
    (reading,) = re.findall(r"`(record\.key\[.*?)`", page)
    code = code.partition("app.start(")[0].replace("localhost:9092", bootstrap)
    code = code.replace('"lines"', f'"{topic}"').replace('"word-counts"', f'"{topic}-counts"')
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    app = names["app"]
    assert isinstance(app, App)
    assert "Sub-topology: 0" in app.describe()

    create(bootstrap, topic)
    send(bootstrap, [In(topic, None, "the log is the database"), In(topic, None, "the end")])
    app.run_available(spark, checkpoints=tmp_path)
    found = [eval(reading, {"record": one}) for one in committed(bootstrap, f"{topic}-counts")]
    assert dict(found) == {"the": 3, "log": 1, "is": 1, "database": 1, "end": 1}


@pytest.mark.own_jvm
def test_the_example_runs(bootstrap: str) -> None:
    code = EXAMPLE.read_text().replace("localhost:9092", bootstrap)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "a: 4" in done.stdout
