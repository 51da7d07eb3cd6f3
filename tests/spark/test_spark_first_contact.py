"""Where no broker is: said soon, by whoever comes first, in one sentence that names the address."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType
from typer.testing import CliRunner

from ottla.cli.root import app as cli
from ottla.client.settings.common import ClientSettings
from ottla.spark.first_contact import ClusterMissing, Patience, check_reachable
from ottla.spark.sink.writers import BatchWriter
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.columns import spark_schema
from ottla.spark.source.stream_reader import StreamReader
from ottla.streams import App
from ottla.streams.internal_topics import prepare

SOON_S = 13
"""The patience with addresses that refuse is 5 s; the machine may be busy."""


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address that refuses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{one.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections, and says nothing."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield f"127.0.0.1:{one.getsockname()[1]}"


def read_table(servers: str) -> None:
    BatchReader(reading(servers), spark_schema()).partitions()


def read_stream(servers: str) -> None:
    StreamReader(reading(servers), spark_schema()).initialOffset()


def write_table(servers: str) -> None:
    schema = StructType().add("value", "string")
    BatchWriter({"kafka.bootstrap.servers": servers, "topic": "a"}, schema, False)


def write_version(servers: str) -> None:
    schema = StructType().add("value", "string")
    options = {"kafka.bootstrap.servers": servers, "topic": "a"}
    BatchWriter({**options, "txnAppId": "a", "txnVersion": "0"}, schema, False)


def start_streams(servers: str) -> None:
    app = App("a", bootstrap_servers=servers)
    app.stream("a").to("b")
    prepare(app.settings, app.topology, app.plan())


def reading(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": "a"}


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual one is waited for by the test of a pipeline."""
    monkeypatch.setattr(Patience, "of", lambda options, settings: Patience(0.5, 0.5))


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize(
    "work", [read_table, read_stream, write_table, write_version, start_streams]
)
def test_an_address_that_refuses_is_told_soon(work: Callable[[str], None], nowhere: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ClusterMissing) as caught:
        work(nowhere)
    assert time.monotonic() - begin < SOON_S
    told = str(caught.value)
    assert told.startswith(f"no Kafka broker answers at {nowhere} (connection refused; tried for ")
    assert "check kafka.bootstrap.servers" in told
    assert "\n" not in told


def test_silence_is_waited_for_as_long_as_is_said(silent: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ClusterMissing, match=f"answers at {silent} .*silence"):
        check_reachable({"kafka.bootstrap.servers": silent, "kafka.default.api.timeout.ms": "1500"})
    assert 1.4 < time.monotonic() - begin < SOON_S


def test_a_broker_that_answers_is_enough(bootstrap: str) -> None:
    check_reachable({"kafka.bootstrap.servers": bootstrap})


def test_a_limit_that_was_given_is_kept_to() -> None:
    given = {"default_api_timeout_ms": "60000"}
    settings = ClientSettings(default_api_timeout_ms=60_000)
    assert Patience.of(given, settings) == Patience(60.0, 60.0)
    assert Patience.of({}, settings) == Patience(5.0, 15.0)


def test_a_pipeline_says_it_in_one_line(nowhere: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text("source: {topic: a}\nsink: {topic: b}\n")
    begin = time.monotonic()
    result = CliRunner().invoke(
        cli, ["pipeline", "run", str(file), "--bootstrap", nowhere, "--state-dir", str(tmp_path)]
    )
    assert 4.5 < time.monotonic() - begin < SOON_S
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert f"no Kafka broker answers at {nowhere}" in line
