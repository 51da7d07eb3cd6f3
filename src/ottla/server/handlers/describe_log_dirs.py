"""DescribeLogDirs: how much lies in which data folder, and how much room is left."""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.context import RequestContext
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

NO_LAG_KNOWN = -1


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cordoned = {os.path.normpath(p) for p in context.node.config["cordoned.log.dirs"] or ()}
    logs: dict[str, list[Log]] = {}
    manager = context.node.log_manager
    for log in manager.logs() + manager.futures.all():
        if wanted is None or (log.topic, log.partition) in wanted:
            logs.setdefault(log.parent_directory, []).append(log)
    return DescribeLogDirsResponse(
        results=[
            _describe(context, log_dir, logs.get(log_dir.path, ()), log_dir.path in cordoned)
            for log_dir in context.node.log_manager.dirs
            if log_dir.serves_partitions
        ]
    )


def _describe(
    context: RequestContext, log_dir: LogDir, logs: Iterable[Log], cordoned: bool
) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path, is_cordoned=cordoned
    )
    if not log_dir.online:
        return failed
    try:
        total_bytes, usable_bytes = context.node.runtime.disk.space(log_dir.path)
    except OSError:
        return failed
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(_partition(context, log))
    return DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=cordoned,
    )


def _partition(context: RequestContext, log: Log) -> DescribeLogDirsPartition:
    manager = context.node.log_manager
    if manager.futures.get(log.topic, log.partition) is log:
        current = manager.get(log.topic, log.partition)
        return DescribeLogDirsPartition(
            partition_index=log.partition,
            partition_size=log.size_bytes,
            offset_lag=NO_LAG_KNOWN if current is None else current.end_offset - log.end_offset,
            is_future_key=True,
        )
    hosted = context.node.replicas.topics.get(log.topic)
    partition = None if hosted is None else hosted.partitions.get(log.partition)
    lag = NO_LAG_KNOWN
    if partition is not None:
        lag = max(0, partition.high_watermark - log.end_offset)
    return DescribeLogDirsPartition(
        partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag
    )
