"""`ottla transactions` against a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench.brokers import Broker
from cli_tools import Outcome, Run, call, eventually
from confluent_kafka import KafkaException, Producer

from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.runtime.clock import SystemClock
from ottla.runtime.os_runtime import OsRuntime, run


@pytest.fixture
def open_producer(ottla: Run, bootstrap: str, topic: str) -> Producer:
    """A producer with a transaction open in partition 0 of `topic`, whose name is also its id."""
    ottla("topics", "create", topic, "-p", 2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(20) == 0
    return producer


def test_an_open_transaction_is_listed_and_described(
    ottla: Run, topic: str, open_producer: Producer
) -> None:
    listed = ottla("transactions", "list", "--state", "Ongoing", "--json").json
    (found,) = (one for one in listed if one["transactional_id"] == topic)
    assert found["state"] == "Ongoing"
    (described,) = ottla("transactions", "describe", topic, "--json").json
    assert described["producer_id"] == found["producer_id"]
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert described["timeout_ms"] == 60_000
    assert f"{topic}-0" in ottla("transactions", "describe", topic).text
    open_producer.commit_transaction(20)
    eventually(lambda: state(ottla, topic) == "CompleteCommit")
    assert topic in ottla("transactions", "list", "--state", "CompleteCommit").text


def state(ottla: Run, name: str) -> str:
    found: str = ottla("transactions", "describe", name, "--json").json[0]["state"]
    return found


def test_a_transaction_is_aborted_by_its_id(
    ottla: Run, topic: str, open_producer: Producer
) -> None:
    aborted = ottla("transactions", "abort", "--yes", topic, "--json")
    assert aborted.code == 0
    assert aborted.json["transactional_id"] == topic
    assert state(ottla, topic) == "Empty"
    with pytest.raises(KafkaException):
        open_producer.commit_transaction(20)


def test_an_unknown_id_is_one_clear_line(ottla: Run) -> None:
    unknown = ottla("transactions", "describe", "nobody-has-this-id")
    assert unknown.code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.err
    assert unknown.err.count("\n") == 1


def test_an_unknown_id_does_not_keep_others_from_being_described(
    ottla: Run, topic: str, open_producer: Producer
) -> None:
    shown = ottla("transactions", "describe", "nobody-has-this-id", topic)
    assert shown.code == 1
    assert topic in shown.text
    assert "nobody-has-this-id" in shown.err
    told = ottla("transactions", "describe", "nobody-has-this-id", topic, "--json")
    assert told.code == 1
    assert [one.get("error", one.get("state")) for one in told.json] == [
        "TRANSACTIONAL_ID_NOT_FOUND",
        "Ongoing",
    ]
    open_producer.abort_transaction(20)


def test_an_unknown_state_is_an_error(ottla: Run) -> None:
    wrong = ottla("transactions", "list", "--state", "Lost")
    assert wrong.code == 1
    assert "Lost" in wrong.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("some-id", "--topic", "t", "--partition", "0", "--start-offset", "1"),
        ("--topic", "t", "--partition", "0"),
        ("--topic", "t", "--start-offset", "0"),
        ("--topic", "t", "--partition", "0", "--producer-id", "5"),
    ],
)
def test_what_to_abort_must_be_named_one_way(ottla: Run, arguments: tuple[str, ...]) -> None:
    assert ottla("transactions", "abort", "--yes", *arguments).code == 2


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    ottla: Run, topic: str, open_producer: Producer
) -> None:
    look = ("transactions", "find-hanging", "--topic", topic, "--idle-ms", 0, "--json")
    assert ottla(*look).json == []
    open_producer.abort_transaction(20)


def test_a_hanging_transaction_is_found_and_aborted(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker({"transaction.partition.verification.enable": "false"})
    environment = {"OTTLA_BOOTSTRAP": broker.address}

    def ottla(*arguments: object) -> Outcome:
        return call(*arguments, environment=environment)

    ottla("topics", "create", topic, "-p", 2)
    write_without_a_coordinator(broker.address, topic, partition=1)
    look = ("transactions", "find-hanging", "--topic", topic, "--idle-ms", 0, "--json")
    (found,) = ottla(*look).json
    assert (found["partition"], found["open_since_offset"]) == (1, 0)
    assert found["transactional_id"] is None
    where = ("--topic", topic, "--partition", 1)
    wrong = ottla("transactions", "abort", "--yes", *where, "--start-offset", 5)
    assert wrong.code == 2
    assert "there: 0" in wrong.err
    assert ottla("transactions", "abort", "--yes", *where, "--start-offset", 0).code == 0
    assert ottla(*look).json == []


def write_without_a_coordinator(bootstrap: str, topic: str, partition: int) -> None:
    """A batch of a transaction that no coordinator knows, as a broker before Kafka 3.6 would take
    it from a producer that was cut off for a while."""
    batch = build_batch(
        [Record(0, SystemClock().wall_ms() - 1_000, None, b"hangs")],
        producer_id=123,
        producer_epoch=4,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        transactional_id="long-gone",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )

    async def work(runtime: OsRuntime) -> None:
        async with Cluster.of(ClientSettings(bootstrap_servers=bootstrap), runtime) as cluster:
            answer = await (await cluster.any_broker()).request(request, version=11)
            assert answer.responses[0].partition_responses[0].error_code == 0

    run(work)


def test_an_id_that_nobody_used_is_not_aborted_and_not_made(ottla: Run, topic: str) -> None:
    refused = ottla("transactions", "abort", "--yes", f"{topic}.missing")
    assert (refused.code, f"{topic}.missing" in refused.err) == (1, True)
    listed = ottla("transactions", "list", "--json").json
    assert f"{topic}.missing" not in {entry["transactional_id"] for entry in listed}
