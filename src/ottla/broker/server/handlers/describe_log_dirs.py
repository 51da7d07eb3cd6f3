"""DescribeLogDirs: the size of the logs in each log dir, and the free space."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from typing import Any

from ottla.broker.server.context import BrokerContext
from ottla.broker.server.contract import Handler
from ottla.broker.storage.dirs.log_dir import LogDir
from ottla.broker.storage.log import Log
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.runtime.pace import at_once, many_in_slices

NO_LAG_KNOWN = -1
AT_ONCE_LOGS_MAX = 1_000
"""Above this number of logs the answer is built in slices."""


def handle(
    context: BrokerContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Coroutine[Any, Any, DescribeLogDirsResponse]:
    steps = _answer(context, request)
    if context.services.log_manager.log_count <= AT_ONCE_LOGS_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _answer(
    context: BrokerContext, request: DescribeLogDirsRequest
) -> Generator[None, None, DescribeLogDirsResponse]:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs: dict[str, list[Log]] = {}
    manager = context.services.log_manager
    for log in manager.logs() + manager.futures.all():
        if wanted is None or (log.topic, log.partition) in wanted:
            logs.setdefault(log.parent_directory, []).append(log)
        yield
    response = DescribeLogDirsResponse()
    for log_dir in manager.dirs:
        if log_dir.serves_partitions:
            found = logs.get(log_dir.path, ())
            described = yield from _describe(
                context, log_dir, found, manager.dirs.is_cordoned(log_dir)
            )
            response.results.append(described)
    return response


def _describe(
    context: BrokerContext, log_dir: LogDir, logs: Iterable[Log], cordoned: bool
) -> Generator[None, None, DescribeLogDirsResult]:
    failed = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path, is_cordoned=cordoned
    )
    if not log_dir.online:
        return failed
    try:
        total_bytes, usable_bytes = context.services.runtime.disk.space(log_dir.path)
    except OSError:
        return failed
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(_partition(context, log))
        yield
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


def _partition(context: BrokerContext, log: Log) -> DescribeLogDirsPartition:
    manager = context.services.log_manager
    if manager.futures.get(log.topic, log.partition) is log:
        current = manager.get(log.topic, log.partition)
        return DescribeLogDirsPartition(
            partition_index=log.partition,
            partition_size=log.size_bytes,
            offset_lag=NO_LAG_KNOWN if current is None else current.end_offset - log.end_offset,
            is_future_key=True,
        )
    hosted = context.services.replicas.topics.get(log.topic)
    partition = None if hosted is None else hosted.partitions.get(log.partition)
    lag = NO_LAG_KNOWN
    if partition is not None:
        lag = max(0, partition.high_watermark - log.end_offset)
    return DescribeLogDirsPartition(
        partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag
    )


def _refuse(_request: DescribeLogDirsRequest, _error: KafkaError) -> DescribeLogDirsResponse:
    """Answer without folders, as Kafka does: old versions have no field for the error."""
    return DescribeLogDirsResponse()


HANDLER = Handler(on_broker=handle, refuse=_refuse)
