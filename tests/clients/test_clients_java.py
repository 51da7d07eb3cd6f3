"""Apache Kafka's own Java client, through the tools it ships, where its jars are at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import run_java
from client_samples import CODECS

Tool = Callable[..., str]
TOOLS = "org.apache.kafka.tools."


@pytest.fixture
def tool(kafka_libs: Path, bootstrap: str) -> Tool:
    """`tool("TopicCommand", "--list")`: the standard output; an error exit fails the test."""

    def run(name: str, *arguments: str, stdin: str | None = None) -> str:
        place = ("--bootstrap-server", bootstrap)
        full = name if name.startswith("kafka.") else TOOLS + name
        return run_java(kafka_libs, full, *place, *arguments, stdin=stdin).stdout

    return run


def read(tool: Tool, topic: str, count: int, *arguments: str) -> list[str]:
    where = ("--topic", topic, "--partition", "0", "--offset", "earliest")
    limit = ("--max-messages", str(count), "--timeout-ms", "20000")
    return tool("consumer.ConsoleConsumer", *where, *limit, *arguments).splitlines()


def test_java_tools_administer_topics(tool: Tool, topic: str) -> None:
    create = ("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000")
    assert "Created topic" in tool("TopicCommand", *create)
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1000" in described
    assert "TopicId: " in described
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", topic)
    tool("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", "--list").split()


def test_java_tools_change_settings(tool: Tool, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    change = ("--alter", "--add-config", "segment.bytes=2097152,cleanup.policy=[compact,delete]")
    tool("kafka.admin.ConfigCommand", *entity, *change)
    described = tool("kafka.admin.ConfigCommand", *entity, "--describe")
    assert "segment.bytes=2097152" in described
    assert "cleanup.policy=compact,delete" in described
    tool("kafka.admin.ConfigCommand", *entity, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes" not in tool("kafka.admin.ConfigCommand", *entity, "--describe")


def test_java_tools_change_quotas(tool: Tool, topic: str) -> None:
    config = "kafka.admin.ConfigCommand"
    user = ("--entity-type", "users", "--entity-name", topic)
    each = (*user, "--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    rates = "producer_byte_rate=1024,request_percentage=12.5"
    tool(config, *each, "--alter", "--add-config", rates)
    tool(config, *address, "--alter", "--add-config", "connection_creation_rate=5")
    described = tool(config, *each, "--describe")
    assert f"Quota configs for user-principal '{topic}', the default client-id are" in described
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=12.5" in described
    assert "connection_creation_rate=5.0" in tool(config, *address, "--describe")
    tool(config, *each, "--alter", "--delete-config", "producer_byte_rate,request_percentage")
    tool(config, *address, "--alter", "--delete-config", "connection_creation_rate")
    assert "12.5" not in tool(config, *each, "--describe")


@pytest.mark.parametrize("codec", CODECS)
def test_java_client_reads_back_what_it_wrote(tool: Tool, topic: str, codec: str) -> None:
    """The producer's defaults are idempotence and acks=all."""
    tool("TopicCommand", "--create", "--topic", topic)
    lines = [f"key{number}:value {number}" for number in range(50)]
    tool(
        *("ConsoleProducer", "--topic", topic, "--compression-codec", codec),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="\n".join(lines) + "\n",
    )
    shown = ("print.key=true", "key.separator=:")
    arguments = [part for one in shown for part in ("--formatter-property", one)]
    assert read(tool, topic, 50, *arguments) == lines


def test_java_performance_tools_run(
    tool: Tool, kafka_libs: Path, bootstrap: str, topic: str
) -> None:
    tool("TopicCommand", "--create", "--topic", topic, "--partitions", "6")
    produced = run_java(
        kafka_libs,
        *(TOOLS + "ProducerPerformance", "--topic", topic, "--throughput", "-1"),
        *("--num-records", "20000", "--record-size", "500", "--bootstrap-server", bootstrap),
    ).stdout
    assert re.search(r"^20000 records sent", produced, re.MULTILINE), produced
    listed = tool("GetOffsetShell", "--topic", topic).split()
    assert sum(int(line.rpartition(":")[2]) for line in listed) == 20000


def test_java_tools_see_offsets_log_dirs_and_versions(tool: Tool, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    assert tool("GetOffsetShell", "--topic", topic, "--time", "latest").split() == [f"{topic}:0:3"]
    assert tool("GetOffsetShell", "--topic", topic, "--time", "earliest").split() == [
        f"{topic}:0:0"
    ]
    assert f'"partition":"{topic}-0"' in tool("LogDirsCommand", "--describe")
    assert "Produce(0): 0 to" in tool("BrokerApiVersionsCommand")


def test_java_tools_delete_records(tool: Tool, topic: str, tmp_path: Path) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        f'{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"offset":2}}]}}'
    )
    tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert read(tool, topic, 1) == ["c"]
