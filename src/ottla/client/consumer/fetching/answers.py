"""Handles fetch responses: records go to the buffer, errors to the part that deals with them.

The errors of a partition lead to:

    leader moved, replica away, epoch fenced    refresh metadata, then retry after a pause
    topic missing                               the same, without end: it may come back
    offset out of range                         look up a new one, or leave it to the application
    no permission, and unexpected errors        raised by the next poll, then retried
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.fetching.sessions import Asked
from ottla.client.consumer.partition_state import UNKNOWN, PartitionState
from ottla.client.errors import UnreadableBatch
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Broker
from ottla.client.values import TopicPartition
from ottla.counters import MetricRegistry
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.consumer")

MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}
GONE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
PASSING = {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR}

States = Mapping[TopicPartition, tuple[PartitionState, int]]
"""The requested states, each with its version at that time."""


class FetchAnswers:
    def __init__(
        self,
        cluster: Cluster,
        buffer: FetchBuffer,
        *,
        out_of_range: Callable[[PartitionState], None],
        raise_later: Callable[[Exception], None],
        metrics: MetricRegistry,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._buffer = buffer
        self._out_of_range = out_of_range
        self._raise_later = raise_later
        self._sizes = metrics.timer("fetch-size")

    def take(
        self, node_id: int, states: States, wanted: Mapping[TopicPartition, Asked], response: Any
    ) -> None:
        names = {asked.topic_id: partition.topic for partition, asked in wanted.items()}
        size = 0
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                continue
            for answer in topic.partitions:
                size += len(answer.records or b"")
                partition = TopicPartition(name, answer.partition_index)
                found = states.get(partition)
                if found is not None and found[0].version == found[1]:
                    if answer.error_code:
                        is_leader = wanted[partition].is_leader
                        endpoints = response.node_endpoints
                        self._failed(node_id, is_leader, found[0], answer, endpoints)
                    else:
                        self._take_one(found[0], answer)
        self._sizes.record(size)

    def _take_one(self, state: PartitionState, answer: Any) -> None:
        if answer.high_watermark >= 0:
            state.high_watermark = answer.high_watermark
        if answer.last_stable_offset >= 0:
            state.last_stable_offset = answer.last_stable_offset
        if answer.log_start_offset >= 0:
            state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            state.preferred_replica = answer.preferred_read_replica
            max_age_s = self._cluster.settings.metadata_max_age_ms / 1000
            state.preferred_until = self._clock.now() + max_age_s
        if answer.records:
            self._buffer.add(state, answer.records, _aborted(answer))

    def _failed(
        self,
        node_id: int,
        is_leader: bool,
        state: PartitionState,
        answer: Any,
        endpoints: list[Any],
    ) -> None:
        code = ErrorCode.of(answer.error_code)
        log.debug(
            "%s at offset %d: broker %d: %s", state.partition, state.fetched, node_id, code.name
        )
        state.preferred_replica = UNKNOWN
        if self._heed_hint(state, answer, endpoints):
            return
        if code in MOVED or code in GONE:
            self._cluster.metadata.request_refresh()
            self._rest(state)
        elif code in PASSING:
            self._rest(state)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower may lag, and may no longer be preferred since the request was sent. Records
            # fetched before are delivered first.
            if not is_leader:
                self._rest(state)
            elif not self._buffer.hold_back(state):
                self._out_of_range(state)
        elif code == ErrorCode.CORRUPT_MESSAGE:
            if not self._buffer.hold_back(state):
                self._buffer.fail(state, _corrupt(state))
        else:
            self._raise_later(KafkaError(code, f"{state.partition}: {code.message}"))
            self._rest(state)

    def _heed_hint(self, state: PartitionState, answer: Any, endpoints: list[Any]) -> bool:
        """Return whether the broker named a newer leader (KIP-951): then no metadata is needed."""
        leader = answer.current_leader
        if leader.leader_id < 0 or leader.leader_epoch <= state.leader_epoch:
            return False
        brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in endpoints]
        self._cluster.metadata.leader_changed(
            state.partition, leader.leader_id, leader.leader_epoch, brokers
        )
        return True

    def _rest(self, state: PartitionState) -> None:
        state.rest_until = self._clock.now() + self._cluster.settings.retry_backoff_ms / 1000


def _aborted(answer: Any) -> list[tuple[int, int]]:
    return [(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()]


def _corrupt(state: PartitionState) -> UnreadableBatch:
    following = state.position + 1
    return UnreadableBatch(
        state.partition,
        state.position,
        "the broker says that its log is damaged here; look at its disk and its log, "
        f"or seek behind the damage ({following} or later)",
        following,
    )
