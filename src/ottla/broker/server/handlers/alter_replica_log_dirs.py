"""AlterReplicaLogDirs: move replicas between the log dirs of this broker."""

from __future__ import annotations

from ottla.broker.server.context import BrokerContext
from ottla.broker.server.contract import Handler
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = get_logger("ottla.server")


def handle(
    context: BrokerContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Each replica is moved or refused by itself. If a replica is named twice, the last path
    counts."""
    wishes = {
        (topic.name, index): folder.path
        for folder in request.dirs
        for topic in folder.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    refusals: list[KafkaError] = []
    for (topic, index), path in wishes.items():
        code = _move(context, topic, index, path, refusals)
        results.setdefault(topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
    if refusals:
        # One line for all of them: a request may name thousands.
        log.warning("cannot move replicas", count=len(refusals), first=str(refusals[0]))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _move(
    context: BrokerContext, topic: str, index: int, path: str, refusals: list[KafkaError]
) -> ErrorCode:
    replicas = context.services.replicas
    try:
        replicas.move(topic, index, path)
    except KafkaError as error:
        refusals.append(without_traceback(error))
        return replicas.fail_dir_if_needed(error).code
    return ErrorCode.NONE


def _refuse(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=int(error.code)
                    )
                    for index in topic.partitions
                ],
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    )


HANDLER = Handler(on_broker=handle, refuse=_refuse)
