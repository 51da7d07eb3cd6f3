"""Applications in Python: a function on a cluster of processes, and an app of streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_tools import SMALL, Pipelines

FUNCTION = """\
from words import shout

SPARK_OPTIONS = {"spark.sql.shuffle.partitions": "1"}


def pipeline(spark, context):
    source = spark.readStream.format("ottla").options(**context.connection)
    lines = source.option("subscribe", "TOPIC").option("startingOffsets", context.starting()).load()

    def each(batches):
        for batch in batches:
            batch["value"] = [shout(value) for value in batch["value"]]
            yield batch

    loud = lines.select("key", "value").mapInPandas(each, "key binary, value binary")
    writer = loud.writeStream.format("ottla").options(**context.connection)
    return (
        writer.option("topic", context.topic("TOPIC.loud"))
        .option("checkpointLocation", context.checkpoint())
        .trigger(**context.trigger)
        .start()
    )
"""
STREAMS = """\
from ottla.streams import App

app = App("TOPIC")
app.stream("TOPIC").filter(lambda record: record.value != "b").to("TOPIC.rest")
"""
CLUSTER = ("--master", "local-cluster[2,1,512]", "--option", "spark.executor.memory=512m")


@pytest.fixture
def pipelines(tmp_path: Path, bootstrap: str) -> Iterator[Pipelines]:
    found = Pipelines(tmp_path, bootstrap)
    try:
        yield found
    finally:
        found.stop_all()


@pytest.mark.timeout(600)
def test_a_function_runs_on_other_processes_with_what_it_imports_from_its_folder(
    pipelines: Pipelines, topic: str
) -> None:
    pipelines.create(topic, f"{topic}.loud")
    pipelines.send(topic, [(b"k%d" % one, b"word %d" % one) for one in range(20)])
    pipelines.write("words.py", "def shout(word):\n    return word.upper()\n")
    file = pipelines.write("loud.py", FUNCTION.replace("TOPIC", topic))
    done = pipelines("run", file, "--once", "--json", *SMALL[2:], *CLUSTER)
    assert done.code == 0, done.err
    assert (done.json["state"], done.json["rows_in"]) == ("finished", 20)
    assert done.json["outputs"]["topics"] == {f"{topic}.loud": f"{topic}.loud"}
    assert {value for _, value in pipelines.read(f"{topic}.loud")} == {
        b"WORD %d" % one for one in range(20)
    }


@pytest.mark.timeout(600)
def test_an_app_of_streams_is_a_pipeline_whatever_its_file_is_called(
    pipelines: Pipelines, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.create(topic, f"{topic}.rest")
    pipelines.send(topic, [(None, b"a"), (None, b"b"), (None, b"c")])
    file = pipelines.write("copy.py", STREAMS.replace("TOPIC", topic))  # as a module of Python's
    monkeypatch.chdir(file.parent)
    done = pipelines("run", file, "--once", "--json", *SMALL)
    assert done.code == 0, done.err
    assert done.json["state"] == "finished"
    assert done.json["outputs"]["topics"] == {f"{topic}.rest": f"{topic}.rest"}
    assert {value for _, value in pipelines.read(f"{topic}.rest")} == {b"a", b"c"}
