"""kcat, the command-line client of librdkafka, as Debian ships it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from client_samples import CODECS, MEGABYTE, ROOMY_BYTES
from confluent_kafka.admin import AdminClient, NewTopic

Kcat = Callable[..., str]


@pytest.fixture
def kcat(kcat_program: str, bootstrap: str) -> Kcat:
    """`kcat("-P", "-t", topic, stdin=...)`: its standard output; any error fails the test."""

    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [kcat_program, "-b", bootstrap, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result(30)


def read_json(kcat: Kcat, topic: str, *arguments: str) -> list[dict[str, Any]]:
    lines = kcat("-C", "-t", topic, "-e", "-q", "-J", "-o", "beginning", *arguments).splitlines()
    return [json.loads(line) for line in lines]


def test_kcat_reads_back_lines_keys_and_headers(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    arguments = ("-P", "-t", topic, "-K", ":", "-H", "a=1", "-H", "b=")
    kcat(*arguments, stdin="k1:first\nk2:second\n")
    records = read_json(kcat, topic)
    assert [(r["key"], r["payload"], r["offset"]) for r in records] == [
        ("k1", "first", 0),
        ("k2", "second", 1),
    ]
    assert records[0]["headers"] == ["a", "1", "b", ""]


def test_kcat_tells_null_from_empty(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    kcat("-P", "-t", topic, "-K", ":", "-Z", stdin=":only value\nonly key:\n")
    assert [(r["key"], r["payload"]) for r in read_json(kcat, topic)] == [
        (None, "only value"),
        ("only key", None),
    ]
    sizes = kcat("-C", "-t", topic, "-e", "-q", "-f", r"%K %S\n").splitlines()
    assert sizes == ["-1 10", "8 -1"]


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_back_what_it_compressed(
    kcat: Kcat, bootstrap: str, topic: str, codec: str
) -> None:
    create(bootstrap, topic)
    lines = [f"line {number} " + "x" * number for number in range(200)]
    kcat("-P", "-t", topic, "-z", codec, stdin="\n".join(lines) + "\n")
    assert kcat("-C", "-t", topic, "-e", "-q").splitlines() == lines


def test_kcat_passes_a_megabyte(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, max_message_bytes=str(ROOMY_BYTES))
    big = "m" * MEGABYTE
    kcat("-P", "-t", topic, "-X", f"message.max.bytes={ROOMY_BYTES}", stdin=big + "\n")
    assert kcat("-C", "-t", topic, "-e", "-q") == big + "\n"


def test_kcat_creates_a_topic_by_producing_to_it(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, stdin="hello\n")
    assert kcat("-C", "-t", topic, "-e", "-q") == "hello\n"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kcat_delivers_with_every_level_of_acks(
    kcat: Kcat, bootstrap: str, topic: str, acks: str
) -> None:
    create(bootstrap, topic)
    kcat("-P", "-t", topic, "-X", f"acks={acks}", stdin="one\ntwo\n")
    assert kcat("-C", "-t", topic, "-e", "-q") == "one\ntwo\n"


def test_kcat_lists_topics_partitions_and_brokers(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=100)
    listing = json.loads(kcat("-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listing["brokers"]] == [bootstrap]
    (described,) = listing["topics"]
    assert [partition["partition"] for partition in described["partitions"]] == list(range(100))
    leaders = {partition["leader"] for partition in described["partitions"]}
    assert leaders == {listing["brokers"][0]["id"]}


def test_kcat_starts_where_it_is_told(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    kcat("-P", "-t", topic, stdin="".join(f"{number}\n" for number in range(10)))
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "7").split() == ["7", "8", "9"]
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "-2").split() == ["8", "9"]
    assert kcat("-C", "-t", topic, "-e", "-q", "-c", "2").split() == ["0", "1"]
    stamps = [record["ts"] for record in read_json(kcat, topic)]
    late = kcat("-C", "-t", topic, "-e", "-q", "-o", f"s@{stamps[-1] + 1}")
    assert late == ""
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", f"s@{stamps[0]}").split()[0] == "0"


def test_kcat_asks_for_offsets_by_time(kcat: Kcat, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    kcat("-P", "-t", topic, stdin="a\nb\nc\n")
    assert kcat("-Q", "-t", f"{topic}:0:0").strip() == f"{topic} [0] offset 0"
    assert kcat("-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 3"
