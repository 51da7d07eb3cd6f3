"""`ottla start --metrics`, with real clients: what they do can be read from the page."""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from metrics_pages import WAIT_S, eventually, get, scrape, value
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open

from ottla.runtime.ports import free_ports

pytestmark = pytest.mark.ottla_only

PROGRAM = str(Path(sys.executable).parent / "ottla")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The port of a broker, and that of its metrics."""
    folder = tmp_path_factory.mktemp("metrics")
    metrics = free_ports(1)[0]
    command = [
        PROGRAM,
        "start",
        "-d",
        str(folder),
        "-l",
        "127.0.0.1:0",
        f"--metrics=127.0.0.1:{metrics}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert ready is not None
        assert process.stdout.readline() == f"Metrics: http://127.0.0.1:{metrics}/metrics\n"
        yield int(ready[1]), metrics
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


@pytest.fixture(scope="module")
def topic(ports: tuple[int, int]) -> str:
    """A topic to which 100 records were sent in one batch, and read again."""
    servers = {"bootstrap.servers": f"127.0.0.1:{ports[0]}"}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("sent", 2, 1)])["sent"].result(WAIT_S)
    producer = Producer({**servers, "linger.ms": 200})
    for number in range(100):
        producer.produce("sent", f"value {number}".encode(), partition=1)
    assert producer.flush(WAIT_S) == 0
    settings = {**servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["sent"])
        assert len(consumer.consume(100, WAIT_S)) == 100
    return "sent"


def test_records_and_bytes_are_counted_by_topic(ports: tuple[int, int], topic: str) -> None:
    found = scrape(ports[1])
    of_topics = "kafka_server_brokertopicmetrics_"
    assert value(found, f"{of_topics}messagesin_total", topic=topic) == 100
    size = value(found, f"{of_topics}bytesin_total", topic=topic)
    assert 1_000 < size < 3_000
    assert value(found, f"{of_topics}bytesout_total", topic=topic) == size
    assert value(found, f"{of_topics}totalproducerequests_total", topic=topic) >= 1
    assert value(found, f"{of_topics}totalfetchrequests_total", topic=topic) >= 1
    assert value(found, f"{of_topics}failedproducerequests_total", topic=topic) == 0
    assert value(found, f"{of_topics}messagesin_total") >= 100
    assert value(found, "kafka_log_log_size", topic=topic, partition=1) == size
    assert value(found, "kafka_log_log_logendoffset", topic=topic, partition=1) == 100
    assert value(found, "kafka_topic_partition_current_offset", topic=topic, partition=1) == 100
    assert value(found, "kafka_topic_partitions", topic=topic) == 2


def test_requests_are_counted_and_measured_by_api(ports: tuple[int, int], topic: str) -> None:
    found = scrape(ports[1])
    of_requests = "kafka_network_requestmetrics_"
    produced = sum(
        number
        for (name, labels), number in found.items()
        if name == f"{of_requests}requests_total" and ("request", "Produce") in labels
    )
    assert produced == value(found, f"{of_requests}totaltimems_count", request="Produce")
    assert produced == value(found, f"{of_requests}errors_total", request="Produce", error="NONE")
    total, local = (
        value(found, f"{of_requests}{phase}_sum", request="FetchConsumer")
        for phase in ("totaltimems", "localtimems")
    )
    assert 0 < local < total
    # The consumer waited for records, which is not work of the broker.
    assert value(found, f"{of_requests}remotetimems_sum", request="JoinGroup") > 100
    assert value(found, f"{of_requests}totaltimems", request="Produce", quantile="0.99") < 10_000


def test_a_question_for_a_version_that_is_not_served_is_counted_as_itself(
    ports: tuple[int, int],
) -> None:
    with socket.create_connection(("127.0.0.1", ports[0]), WAIT_S) as client:
        for api_key, version in ((3, 1), (18, 99)):
            body = struct.pack(">hhih", api_key, version, 7, -1)
            body += struct.pack(">i", -1) if api_key == 3 else b"\0"
            client.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            client.recv(size, socket.MSG_WAITALL)
    found = scrape(ports[1])
    numbers = "kafka_network_requestmetrics_requests_total"
    assert value(found, numbers, request="Metadata", version=1) == 1
    assert value(found, numbers, request="ApiVersions", version=99) == 1


def test_the_cluster_as_its_controller_sees_it(ports: tuple[int, int], topic: str) -> None:
    found = scrape(ports[1])
    controller = "kafka_controller_kafkacontroller_"
    assert value(found, f"{controller}activecontrollercount") == 1
    assert value(found, f"{controller}activebrokercount") == 1
    assert value(found, f"{controller}offlinepartitionscount") == 0
    partitions = value(found, f"{controller}globalpartitioncount")
    assert value(found, "kafka_server_replicamanager_partitioncount") == partitions
    assert value(found, "kafka_server_replicamanager_leadercount") == partitions
    assert value(found, "kafka_server_raftmetrics_current_state", current_state="leader") == 1
    assert value(found, "process_resident_memory_bytes") > 10_000_000
    idle = value(found, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")
    assert 0 <= idle <= 1


def test_batches_that_are_too_large_are_counted_and_deleted_topics_forgotten(
    ports: tuple[int, int],
) -> None:
    servers = {"bootstrap.servers": f"127.0.0.1:{ports[0]}"}
    admin = AdminClient(servers)
    small = NewTopic("small", 1, 1, config={"max.message.bytes": "1000"})
    admin.create_topics([small])["small"].result(WAIT_S)
    failed: list[object] = []
    producer = Producer(servers)
    producer.produce("small", b"x" * 5000, on_delivery=lambda error, _: failed.append(error))
    producer.flush(WAIT_S)
    assert failed[0] is not None
    found = scrape(ports[1])
    rejected = "kafka_server_brokertopicmetrics_bytesrejected_total"
    assert value(found, rejected, topic="small") > 5000
    total = value(found, rejected)
    admin.delete_topics(["small"])["small"].result(WAIT_S)
    of_small = (rejected, frozenset({("topic", "small")}))
    (found,) = eventually([ports[1]], lambda pages: of_small not in pages[0])
    assert value(found, rejected) == total


def test_groups_are_told_with_their_lag_and_lead_in_records_and_seconds(
    ports: tuple[int, int],
) -> None:
    servers = {"bootstrap.servers": f"127.0.0.1:{ports[0]}"}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("lag", 2, 1)])["lag"].result(WAIT_S)
    producer = Producer({**servers, "linger.ms": 100, "compression.type": "zstd"})
    now_ms = int(time.time() * 1000)
    for number in range(10):  # one batch; a record for each of the last ten minutes
        producer.produce("lag", b"x", partition=0, timestamp=now_ms - (10 - number) * 60_000)
    assert producer.flush(WAIT_S) == 0
    with closing(Consumer({**servers, "group.id": "late"})) as consumer:
        consumer.commit(offsets=[TopicPartition("lag", 0, 7)], asynchronous=False)
        consumer.commit(offsets=[TopicPartition("lag", 1, 0)], asynchronous=False)
        (found,) = eventually(
            [ports[1]], lambda pages: any("lag_sum" in name for name, _ in pages[0])
        )
    late = {"consumergroup": "late", "topic": "lag"}
    assert value(found, "kafka_consumergroup_current_offset", **late, partition=0) == 7
    assert value(found, "kafka_consumergroup_lag", **late, partition=0) == 3
    assert value(found, "kafka_consumergroup_lag", **late, partition=1) == 0
    assert value(found, "kafka_consumergroup_lag_sum", **late) == 3
    assert value(found, "kafka_consumergroup_members", consumergroup="late") == 0
    assert value(found, "ottla_consumergroup_lead", **late, partition=0) == 7
    lead_s = value(found, "ottla_consumergroup_lead_seconds", **late, partition=0)
    assert lead_s == pytest.approx(7 * 60)
    named = {"group": "late", "topic": "lag"}
    lag_s = value(found, "kafka_consumergroup_group_lag_seconds", **named, partition=0)
    assert 180 <= lag_s < 180 + 2 * WAIT_S, "the age of the record at offset 7"
    assert value(found, "kafka_consumergroup_group_lag_seconds", **named, partition=1) == 0
    assert value(found, "kafka_consumergroup_group_max_lag_seconds", group="late") == lag_s
    assert value(found, "ottla_groups", kind="classic", state="Empty") >= 1


def test_open_metrics_are_valid_too(ports: tuple[int, int], topic: str) -> None:
    status, page = get(ports[1], accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert page.endswith("# EOF\n")
    assert len({family.name for family in parse_open(page)}) > 50


def test_a_broker_that_serves_is_healthy_and_ready(ports: tuple[int, int]) -> None:
    assert get(ports[1], "/health") == (200, "ok\n")
    assert get(ports[1], "/ready") == (200, "ready\n")
    assert get(ports[1], "/")[0] == 404


def test_the_page_of_the_docs_names_all_metrics_and_no_others(
    ports: tuple[int, int], topic: str
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {
        name
        for row in rows
        if "quotas.md" not in row
        for name in re.findall(r"`((?:kafka|ottla|process)_\w+)`", row.rpartition(" | ")[0])
    }
    assert len(named) > 60
    _, text = get(ports[1])
    assert named == set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
