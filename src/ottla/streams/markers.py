"""Waits until committed records can be read.

A commit is answered when it is decided. The markers are written to the partitions a moment later;
until then `read_committed` readers stop before the records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.blocking import Admin
from ottla.client.admin.offsets import IsolationLevel, OffsetSpec
from ottla.client.network.metadata import Topic
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.spark.client_options import admin_options
from ottla.streams.settings import Settings

WAIT_MAX_S = 30.0
_POLL_S = 0.02


def wait_for_markers(settings: Settings, topics: Iterable[str]) -> None:
    """Wait for the markers in these topics. Give up after `WAIT_MAX_S`, because other transactions
    may be open there for long."""
    with Admin(**admin_options(settings.to_spark())) as admin:
        found = admin.describe_topics(list(topics))
        partitions = [
            TopicPartition(name, number)
            for name, one in found.items()
            if isinstance(one, Topic)
            for number in range(len(one.partitions))
        ]
        ends = _ends(admin, partitions, "read_uncommitted")
        deadline = time.monotonic() + WAIT_MAX_S
        while any(
            readable < ends[one]
            for one, readable in _ends(admin, partitions, "read_committed").items()
        ):
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


def _ends(
    admin: Admin, partitions: list[TopicPartition], level: IsolationLevel
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
    found = admin.list_offsets(wanted, isolation_level=level)
    return {
        one: at.offset if isinstance(at, OffsetAndTimestamp) else 0 for one, at in found.items()
    }
