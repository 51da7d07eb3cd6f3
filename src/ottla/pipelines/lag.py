"""The lag of a pipeline behind the topics it reads, running or not, asked of the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.admin.first_records import first_record_times
from ottla.client.admin.offsets import OffsetSpec, find_offsets
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.spark.client_options import admin_options

TIMEOUT_MS = 5000

Offsets = Mapping[str, Mapping[str, int]]


def find_lag(connection: Mapping[str, str], offsets: Offsets) -> list[dict[str, Any]]:
    """Return, for each partition, the number of unprocessed records and the age of the first."""
    asked = {**connection}
    asked.setdefault("kafka.request.timeout.ms", str(TIMEOUT_MS))
    asked.setdefault("kafka.default.api.timeout.ms", str(TIMEOUT_MS))
    settings = settings_from(ClientSettings, admin_options(asked))

    async def main(runtime: OsRuntime) -> list[dict[str, Any]]:
        async with Cluster.of(settings, runtime) as cluster:
            return await _lag(cluster, offsets)

    return run(main)


async def _lag(cluster: Cluster, offsets: Offsets) -> list[dict[str, Any]]:
    places = {
        TopicPartition(topic, int(index)): max(offset, 0)
        for topic, partitions in offsets.items()
        for index, offset in partitions.items()
    }
    ends = await find_offsets(
        cluster, dict.fromkeys(places, OffsetSpec.LATEST), isolation_level="read_committed"
    )
    known = {one: end.offset for one, end in ends.items() if not isinstance(end, KafkaError)}
    ranges = {one: (places[one], end) for one, end in known.items() if end > places[one]}
    times = await first_record_times(cluster, ranges)
    now_ms = cluster.runtime.clock.wall_ms()
    return [
        entry(one, places[one], known.get(one), times.get(one), now_ms) for one in sorted(places)
    ]


def entry(
    place: TopicPartition,
    offset: int,
    end: int | None,
    time: int | KafkaError | None,
    now_ms: int,
) -> dict[str, Any]:
    """Return the entry of a partition. If its end is unknown, it or its topic may be gone."""
    lag = None if end is None else max(end - offset, 0)
    seconds: float | None = 0.0 if lag == 0 else None
    if lag and isinstance(time, int) and time >= 0:
        seconds = max(now_ms - time, 0) / 1000
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": offset,
        "end": end,
        "lag": lag,
        "lag_seconds": seconds,
    }


def total(partitions: list[dict[str, Any]]) -> dict[str, Any]:
    lags = [one["lag"] for one in partitions if one["lag"] is not None]
    ages = [one["lag_seconds"] for one in partitions if one["lag_seconds"] is not None]
    return {"records": sum(lags) if lags else None, "seconds": max(ages, default=None)}
