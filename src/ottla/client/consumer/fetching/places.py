"""Finds the broker to fetch a partition from: its leader, or the follower the leader has named.

It also detects changes: the position must be validated with a new leader (KIP-320), and a topic
that was deleted and created again is another topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client.consumer.partition_state import UNKNOWN, PartitionState
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Topic
from ottla.protocol.uuids import ZERO_UUID


class Place(NamedTuple):
    node_id: int
    leader_epoch: int
    topic_id: bytes
    is_leader: bool


class FetchPlaces:
    def __init__(
        self,
        cluster: Cluster,
        *,
        must_validate: Callable[[PartitionState], None],
        recreated: Callable[[PartitionState], None],
    ) -> None:
        self._cluster = cluster
        self._must_validate = must_validate
        self._recreated = recreated

    def find(self, state: PartitionState, now: float) -> Place | None:
        """Return None if the broker is unknown, or if something must be done before a fetch."""
        name, index = state.partition
        view = self._cluster.view
        topic = view.topics.get(name)
        if topic is None or index >= len(topic.partitions):
            self._cluster.metadata.request_refresh()
            return None
        if not self._is_same(state, topic):
            return None
        partition = topic.partitions[index]
        if partition.leader not in view.brokers:
            self._cluster.metadata.request_refresh()
            return None
        if partition.leader_epoch != state.leader_epoch and not self._follow(
            state, partition.leader_epoch
        ):
            return None
        node_id = partition.leader
        if state.preferred_replica != UNKNOWN:
            if state.preferred_until > now and state.preferred_replica in view.brokers:
                node_id = state.preferred_replica
            else:
                state.preferred_replica = UNKNOWN
        is_leader = node_id == partition.leader
        return Place(node_id, partition.leader_epoch, topic.topic_id, is_leader)

    def _is_same(self, state: PartitionState, topic: Topic) -> bool:
        """True if the topic is the same one that was read so far, by its id."""
        before, state.topic_id = state.topic_id, topic.topic_id
        if before in (ZERO_UUID, topic.topic_id) or topic.topic_id == ZERO_UUID:
            return True
        self._recreated(state)
        return False

    def _follow(self, state: PartitionState, leader_epoch: int) -> bool:
        """Accept the new leader epoch at once if there is no position to validate."""
        if leader_epoch > state.leader_epoch != UNKNOWN and state.offset_epoch != UNKNOWN:
            self._must_validate(state)
            return False
        state.leader_epoch = leader_epoch
        return True
