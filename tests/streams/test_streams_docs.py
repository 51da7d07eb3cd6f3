"""The programs of the pages on streams can be built; word count is run as an example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from streams_tools import In, committed, create, send

from ottla.streams import App, BadTopology

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "streams" / "README.md"
EXAMPLE = ROOT / "examples" / "streams_word_count.py"
BLOCKS = [
    code
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    if "spark_" not in code
]


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_programs_of_the_page_can_be_built(code: str) -> None:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    app = names["app"]
    assert isinstance(app, App)
    assert "Sub-topology: 0" in app.describe()
    with pytest.raises(BadTopology):
        app.picture(form="png")


def test_the_page_has_programs() -> None:
    assert len(BLOCKS) >= 4


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
