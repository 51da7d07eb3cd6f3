"""Reads the outputs of pipeline versions for comparison, and creates topics like others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla.blocking import Admin, Consumer
from ottla.client.admin.configs import ConfigResource, ConfigSource, ResourceType
from ottla.client.network.metadata import Topic
from ottla.client.values import TopicPartition
from ottla.pipelines.comparing import Row
from ottla.pipelines.errors import PipelineError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.client_options import admin_options, consumer_options

POLL_MS = 1000
SILENT_POLLS_MAX = 30


class TooMany(PipelineError):
    def __init__(self, what: str, count: int, most: int) -> None:
        super().__init__(f"{what} has {count} records; --limit {count} compares them, not {most}")


def topic_rows(connection: Mapping[str, str], topic: str, most: int) -> Iterator[Row]:
    """Yield committed records, each partition in order; raise TooMany before any is read."""
    options = {**connection, "kafka.isolation.level": "read_committed"}
    with Consumer(**consumer_options(options)) as consumer:
        indexes = sorted(consumer.partitions_for_topic(topic) or ())
        places = [TopicPartition(topic, index) for index in indexes]
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        count = sum(ends[one] - starts[one] for one in places)
        if count > most:
            raise TooMany(f"topic {topic}", count, most)
        wanted = [one for one in places if ends[one] > starts[one]]
        if wanted:
            consumer.assign(wanted)
            consumer.seek_to_beginning(*wanted)
            yield from _until(consumer, {one: ends[one] for one in wanted})


def _until(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> Iterator[Row]:
    """Read up to the ends, by position: the last offset may be that of a marker."""
    silent = 0
    while any(consumer.position(one) < end for one, end in ends.items()):
        batch = consumer.fetch_arrow(POLL_MS)
        silent = 0 if batch.num_rows else silent + 1
        if silent > SILENT_POLLS_MAX:
            raise PipelineError(f"nothing comes of {', '.join(map(str, ends))} any more")
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        yield from zip(keys, values, strict=True)


def reading_groups(connection: Mapping[str, str], topic: str) -> list[str]:
    """Return consumer groups that have committed offsets of a topic."""
    with Admin(**admin_options(connection)) as admin:
        groups = [one.group_id for one in admin.list_consumer_groups()]
        return [
            group
            for group in groups
            if any(place.topic == topic for place in admin.list_group_offsets(group))
        ]


def make_like(connection: Mapping[str, str], models: Mapping[str, str]) -> list[str]:
    """Create each new topic with the partitions and settings of its model, unless it exists. A
    missing model is skipped: the first write creates the new topic."""
    made = []
    with Admin(**admin_options(connection)) as admin:
        found = admin.describe_topics(models.values())
        for name, model in models.items():
            topic = found.get(model)
            if not isinstance(topic, Topic):
                continue
            try:
                admin.create_topic(
                    name, partitions=len(topic.partitions), configs=_settings(admin, model)
                )
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            else:
                made.append(name)
    return made


def _settings(admin: Admin, topic: str) -> dict[str, str]:
    """Return the settings of the topic itself."""
    entries = admin.describe_config(ConfigResource(ResourceType.TOPIC, topic))
    return {
        one.name: one.value
        for one in entries
        if one.source is ConfigSource.DYNAMIC_TOPIC and one.value is not None
    }


def delete_topics(connection: Mapping[str, str], names: list[str]) -> list[str]:
    with Admin(**admin_options(connection)) as admin:
        return [name for name, error in admin.delete_topics(names).items() if error is None]


def parquet_rows(folder: str, most: int, key: str | None) -> Iterator[Row]:
    """Yield rows of files that Spark's sink has committed, as JSON; `key` is a column."""
    import pyarrow.parquet as pq

    files = committed_files(Path(folder.removeprefix("file:")))
    count = sum(pq.ParquetFile(one).metadata.num_rows for one in files)
    if count > most:
        raise TooMany(folder, count, most)
    for one in files:
        for batch in pq.ParquetFile(one).iter_batches():
            for row in batch.to_pylist():
                text = json.dumps(row, default=_plain, sort_keys=True).encode()
                yield (str(row[key]).encode() if key else None), text


def _plain(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def committed_files(folder: Path) -> list[Path]:
    """Return the files in the sink's log: other files are leftovers of failed tasks."""
    log = folder / "_spark_metadata"
    if not log.is_dir():
        raise PipelineError(f"{folder} cannot be compared: it has no log of Spark's file sink")
    found: dict[str, str] = {}
    for file in sorted(log.iterdir(), key=_batch_of):
        if file.name.startswith("."):
            continue
        for line in file.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[entry["path"]] = entry["action"]
    paths = [Path(path.removeprefix("file://")) for path, deed in found.items() if deed == "add"]
    return [path for path in paths if path.suffix == ".parquet"]


def _batch_of(file: Path) -> tuple[int, bool]:
    """Sort key: every tenth file repeats those before it, and is read after them."""
    number, _, kind = file.name.partition(".")
    return (int(number) if number.isdigit() else -1), kind == "compact"
