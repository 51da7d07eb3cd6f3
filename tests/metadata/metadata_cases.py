"""Records and drivers that many tests of the metadata room start from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from ottla.broker.metadata.log import MetadataLog
from ottla.config.broker import BrokerConfig
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.partition_record import PartitionRecord
from ottla.protocol.metadata_records.topic_record import TopicRecord
from ottla.runtime.os_runtime import OsRuntime, run

FOLDER = b"f" * 16
CONFIG = BrokerConfig.parse({})


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def topic(number: int, name: str | None = None) -> TopicRecord:
    return TopicRecord(name=name or f"topic-{number}", topic_id=topic_id(number))


def partition(number: int, index: int, leader: int = 1) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id(number),
        replicas=[1, 2],
        isr=[leader],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=[FOLDER, FOLDER],
    )


def config(name: str, key: str, value: str | None, kind: int = 2) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


async def open_log(
    runtime: OsRuntime,
    folder: Path,
    *,
    clean: bool = False,
    failures: list[Exception] | None = None,
    settings: dict[str, str] | None = None,
) -> MetadataLog:
    seen = [] if failures is None else failures
    return await MetadataLog.open(
        runtime,
        str(folder),
        node_id=1,
        cluster_id="cluster",
        config=CONFIG if settings is None else BrokerConfig.parse(settings),
        clean=clean,
        on_failure=seen.append,
    )


def with_log(folder: Path, use: Callable[[MetadataLog], Awaitable[None]]) -> None:
    """Open the log in `folder`, use it, close it."""

    async def main(runtime: OsRuntime) -> None:
        log = await open_log(runtime, folder)
        await use(log)
        await log.close()

    run(main)
