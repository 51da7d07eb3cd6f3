"""The replicas on this broker, and their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.metrics.exposition import GAUGE, Family, Sample, counter, gauge, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.metrics.changes import MetadataChanges

_MANAGER: Final = "kafka_server_replicamanager_"
_LOG: Final = "kafka_log_log_"
_PARTITION: Final = "kafka_cluster_partition_"

Hosted = list[tuple[str, "Partition"]]
"""Partitions with their labels."""


def replica_families(replicas: ReplicaManager, changes: MetadataChanges) -> Families:
    hosted: Hosted = []
    for topic in list(replicas.topics.values()):
        for partition in list(topic.partitions.values()):
            hosted.append((labels(topic=topic.name, partition=partition.index), partition))
            yield None
    yield from _counts(hosted, changes)
    led = [one for one in hosted if one[1].is_leader and one[1].error is None]
    yield from _of_partitions(led)
    yield from _of_logs(hosted)


def _counts(hosted: Hosted, changes: MetadataChanges) -> Families:
    leading = offline = under_replicated = under_min = at_min = reassigning = 0
    for _, partition in hosted:
        if partition.error is not None or partition.leader_id < 0:
            offline += 1
        elif partition.is_leader:
            leading += 1
            under_replicated += is_under_replicated(partition)
            under_min += is_under_min_isr(partition)
            at_min += is_at_min_isr(partition)
            reassigning += is_reassigning(partition)
        yield None
    for name, text, value in (
        ("partitioncount", "Partitions on this broker", len(hosted)),
        ("leadercount", "Partitions that this broker leads", leading),
        ("offlinereplicacount", "Partitions here without a leader or a usable log", offline),
        ("underreplicatedpartitions", "Led here, with replicas out of sync", under_replicated),
        ("underminisrpartitioncount", "Led here, below min.insync.replicas", under_min),
        ("atminisrpartitioncount", "Led here, just at min.insync.replicas", at_min),
        ("reassigningpartitions", "Led here, with a reassignment in progress", reassigning),
    ):
        yield gauge(_MANAGER + name, text, value)
    yield counter(_MANAGER + "isrshrinks_total", "ISRs led here that shrank", changes.shrinks)
    yield counter(_MANAGER + "isrexpands_total", "ISRs led here that grew", changes.expansions)


def is_under_replicated(partition: Partition) -> bool:
    return len(partition.isr) < partition.replica_count


def is_under_min_isr(partition: Partition) -> bool:
    return partition.lacks_replicas


def is_at_min_isr(partition: Partition) -> bool:
    return len(partition.isr) == min(partition.min_insync_replicas, partition.replica_count)


def is_reassigning(partition: Partition) -> bool:
    view = partition.view
    known = None if view is None else view.image.partition(partition.topic, partition.index)
    return known is not None and known.is_reassigned


def _of_partitions(led: Hosted) -> Families:
    """Kafka has these for the partitions that a broker leads."""
    for name, text, read in (
        ("underreplicated", "1 if replicas are out of sync", is_under_replicated),
        ("insyncreplicascount", "Replicas in sync", _in_sync),
        ("replicascount", "Replicas", _replicas),
        ("underminisr", "1 if below min.insync.replicas", is_under_min_isr),
        ("atminisr", "1 if just at min.insync.replicas", is_at_min_isr),
        ("laststableoffsetlag", "High watermark less last stable offset", _unstable),
    ):
        yield Family(_PARTITION + name, GAUGE, text, _each(led, read))


def _of_logs(hosted: Hosted) -> Families:
    held = [one for one in hosted if one[1].log is not None]
    for name, text, read in (
        ("size", "Bytes on disk", _size),
        ("logstartoffset", "The first offset", _start),
        ("logendoffset", "The offset of the next record", _end),
        ("numlogsegments", "Segments", _segments),
    ):
        yield Family(_LOG + name, GAUGE, text, _each(held, read))


def _each(
    hosted: Iterable[tuple[str, Partition]], read: Callable[[Partition], int]
) -> Iterator[Sample]:
    for text, partition in hosted:
        yield text, int(read(partition))


def _in_sync(partition: Partition) -> int:
    return len(partition.isr)


def _replicas(partition: Partition) -> int:
    return partition.replica_count


def _unstable(partition: Partition) -> int:
    return partition.high_watermark - partition.last_stable_offset


def _size(partition: Partition) -> int:
    return 0 if partition.log is None else partition.log.size_bytes


def _start(partition: Partition) -> int:
    return 0 if partition.log is None else partition.log.log_start_offset


def _end(partition: Partition) -> int:
    return 0 if partition.log is None else partition.log.end_offset


def _segments(partition: Partition) -> int:
    return 0 if partition.log is None else len(partition.log.segments)
