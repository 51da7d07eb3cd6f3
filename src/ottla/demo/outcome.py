"""Reads the results at the end: topics, as any consumer would, and the archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from ottla.blocking import Consumer
from ottla.client.values import TopicPartition
from ottla.demo import rules
from ottla.demo.verify import Outcome, Totals

POLL_MS = 1_000


def read_outcome(bootstrap: str, folder: Path) -> Outcome:
    clean = [json.loads(value) for _, value in read_topic(bootstrap, rules.CLEAN)]
    alerts = [json.loads(value) for _, value in read_topic(bootstrap, rules.ALERTS)]
    return Outcome(
        payments=[value for _, value in read_topic(bootstrap, rules.PAYMENTS)],
        archive=read_archive(folder / "archive"),
        dead_letters=[value for _, value in read_topic(bootstrap, rules.DEAD_LETTERS)],
        clean=[(payment["id"], payment["name"]) for payment in clean],
        minutes={
            window_name(key): Totals(**json.loads(value))
            for key, value in read_topic(bootstrap, rules.MERCHANT_MINUTES)
        },
        alerts=[alert["alert"] for alert in alerts],
    )


def window_name(key: bytes) -> str:
    """Return the window of a key as Kafka Streams writes it: the key, then the start in ms."""
    return f"{key[:-8].decode()}@{int.from_bytes(key[-8:])}"


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Return every committed record, in the order of its partition."""
    partitions = [TopicPartition(topic, number) for number in range(rules.TOPICS[topic])]
    found: list[tuple[bytes, bytes]] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            batch = consumer.fetch_arrow(timeout_ms=POLL_MS)
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            found += zip(keys, values, strict=True)
    return found


def read_archive(folder: Path) -> list[bytes]:
    import pyarrow.parquet as parquet

    values: list[bytes] = []
    for path in archived_files(folder):
        values += parquet.read_table(path, columns=["value"]).column("value").to_pylist()
    return values


def archived_files(folder: Path) -> list[str]:
    """Return the files in Spark's log of the folder: others are of attempts that were killed."""
    log = folder / "_spark_metadata"
    if not log.is_dir():
        return []
    numbers = {int(one.name.partition(".")[0]): one for one in log.iterdir() if one.name[0] != "."}
    compact = [number for number, one in numbers.items() if one.suffix == ".compact"]
    since = max(compact, default=0)
    entries: list[dict[str, Any]] = []
    for number in sorted(numbers):
        if number >= since:
            lines = numbers[number].read_text().splitlines()[1:]  # the first line is a version
            entries += map(json.loads, lines)
    return [unquote(urlparse(entry["path"]).path) for entry in entries if entry["action"] == "add"]
