"""AlterReplicaLogDirs: move replicas between the data folders of this broker."""

from __future__ import annotations

from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.server.context import RequestContext

log = get_logger("ottla.server")


def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Each replica moves or is refused by itself; of two wishes for one the last counts."""
    wishes = {
        (topic.name, index): folder.path
        for folder in request.dirs
        for topic in folder.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), path in wishes.items():
        code = _move(context, topic, index, path)
        results.setdefault(topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _move(context: RequestContext, topic: str, index: int, path: str) -> ErrorCode:
    replicas = context.node.replicas
    try:
        replicas.move(topic, index, path)
    except KafkaError as error:
        log.warning("cannot move a replica", topic=topic, partition=index, reason=str(error))
        return replicas.noted(error).code
    return ErrorCode.NONE
