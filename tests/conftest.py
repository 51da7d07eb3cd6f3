"""Brokers for the tests that need a real one.

By default that is Ottla, started as its users start it. With `OTTLA_TEST_TARGET=kafka` and
`OTTLA_KAFKA_LIBS=<folder of jars>` the same tests run against Apache Kafka, which shows that a test
asks for Kafka's behaviour and not for ours.
"""

from __future__ import annotations

import shutil
import signal
import sys
import traceback
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from broker_harness import ROOT, TARGET, Broker, MakeBroker, build, end, fetch_kafka, missing
from ottla.blocking import loop_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A busy machine must not make a test fail. With CI set, Hypothesis has no deadline by itself.
hypothesis.settings.register_profile("without deadline", hypothesis.settings(deadline=None))
hypothesis.settings.load_profile("without deadline")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ottla_only: asks for something that Kafka does not promise")
    config.addinivalue_line(
        "markers", "own_jvm: starts Spark in processes of its own: make test-spark"
    )
    # kafka-python reads its own resources in a way that Python has since deprecated.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated")
    # A shell starts what it runs in the background deaf to Ctrl-C, and so would be all it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.version_info < (3, 12):
        # Python 3.11 cannot parse while it parses (gh-106905). That comes about here: pytest parses
        # a test to rewrite it, memory is collected, a task that failed unseen tells of that, and a
        # traceback parses the lines it shows to put marks below the very words.
        traceback._extract_caret_anchors_from_line_segment = lambda segment: None  # type: ignore[attr-defined]
    if TARGET not in ("ottla", "kafka"):
        raise pytest.UsageError(f"OTTLA_TEST_TARGET is {TARGET!r}; it must be ottla or kafka")


# Each of these keeps two cores busy with a JVM and its Python workers. They come first: with
# `--dist worksteal` that is the first worker's share, where they have one session, and others take
# over what else that worker would have to do.
SPARK_FOLDERS = {"spark", "streams", "pipelines", "demo"}
OWN_JVM = {
    *("test_demo_end_to_end", "test_interop_spark_connector", "test_pipelines_check_full"),
    "test_pipelines_managed",
    *("test_pipelines_python", "test_spark_interrupts", "test_spark_killed_driver"),
    *("test_spark_sink_crashes", "test_spark_source_model"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if uses_spark(item):
            if item.path.stem in OWN_JVM:
                item.add_marker(pytest.mark.own_jvm)
            # A call to the JVM that is cut short leaves the session of all tests unusable.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(400))
    items.sort(key=lambda item: not uses_spark(item))
    if TARGET == "kafka":
        skip = pytest.mark.skip(reason="asks for something that Kafka does not promise")
        for item in items:
            if item.get_closest_marker("ottla_only"):
                item.add_marker(skip)


def uses_spark(item: pytest.Item) -> bool:
    return item.path.parent.name in SPARK_FOLDERS or "spark" in item.path.stem


# Where readers and writers of Spark keep clients for the next task, in the process of the test.
KEPT_CLIENTS = {
    "ottla.spark.sink.connection": "_kept",
    "ottla.spark.source.range_reader": "_clients",
}


@pytest.fixture(scope="module", autouse=True)
def no_client_left_behind() -> Iterator[None]:
    """Blocking clients share a thread with those of the tests that follow."""
    before = _open_clients()
    yield
    for module, kept in KEPT_CLIENTS.items():
        if module in sys.modules:
            getattr(sys.modules[module], kept).close()
    assert _open_clients() == before, "a test of this module left a blocking client open"


def _open_clients() -> int:
    return 0 if loop_thread._shared is None else loop_thread._shared.users


# Tests give records times such as 1234, long past every topic's retention: a look at what is
# old enough to be deleted, every five minutes by default, must not fall into one of them.
KEEP_OLD_RECORDS = {"log.retention.check.interval.ms": str(24 * 3600 * 1000)}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker with default settings for all tests of a worker: use unique topics."""
    shared = build(tmp_path_factory.mktemp("broker"), KEEP_OLD_RECORDS)
    try:
        yield shared.start()
        end(shared, signal.SIGINT)
    finally:
        shared.remove()


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for the tests of groups, in which members join at once and may fall silent for 1 s."""
    options = KEEP_OLD_RECORDS | {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "offsets.retention.check.interval.ms": "200",
    }
    shared = build(tmp_path_factory.mktemp("group-broker"), options)
    try:
        yield shared.start()
        end(shared, signal.SIGINT)
    finally:
        shared.remove()


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """`fresh_broker({"key": "value"})` starts a broker that this test alone uses and may kill."""
    made: list[Broker] = []

    def make(options: Mapping[str, str] | None = None, *, start: bool = True) -> Broker:
        one = build(tmp_path / f"broker-{len(made)}", options)
        made.append(one)
        return one.start() if start else one

    try:
        yield make
        for one in made:
            if one.running:
                end(one, signal.SIGTERM)
    finally:
        for one in made:
            one.remove()


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.originalname[:60]}.{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests of a worker: it takes seconds to start."""
    from ottla.spark import spark_session
    from ottla.spark.java import JavaMissing, find_java

    try:
        find_java()
    except JavaMissing as error:
        missing(str(error))

    folder = tmp_path_factory.mktemp("spark")
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    session = spark_session("tests", master="local[2]", options=options)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """Kafka's jars, for tests that use its own tools."""
    libs = fetch_kafka.find()
    if libs is None or shutil.which("java") is None:
        pytest.skip("no Apache Kafka jars: run scripts/fetch_kafka.py (needs Java and Maven)")
    return libs


@pytest.fixture(scope="session")
def kcat_program() -> str:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        missing("kcat is not installed (Debian and Ubuntu: apt-get install kcat)")
    assert program is not None
    return program


@pytest.fixture(scope="session")
def node_program() -> str:
    program = shutil.which("node")
    if program is None:
        missing("node is not installed (version 20 or newer)")
    if not (ROOT / "tests/clients/kafkajs/node_modules").is_dir():
        missing("the node clients are not installed: npm ci --prefix tests/clients/kafkajs")
    assert program is not None
    return program
