"""`roundrobin`: assigns all partitions of all topics to the members in turn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from ottla.client.consumer.assignors.assignor import Assignment, StatelessAssignor, Subscription
from ottla.client.consumer.assignors.layout import in_order, layout_of, partitions_of
from ottla.client.network.metadata import ClusterView
from ottla.client.values import TopicPartition


class RoundRobinAssignor(StatelessAssignor):
    name = "roundrobin"

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        layout = layout_of(view, members)
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        topics = {member_id: frozenset(one.topics) for member_id, one in members.items()}
        turns = cycle(in_order(members))
        for partition in partitions_of(layout, sorted(layout)):
            # Every topic of the layout has a subscriber, so `next` always finds one.
            chosen = next(one for one in turns if partition.topic in topics[one])
            given[chosen].append(partition)
        return {member_id: Assignment(partitions) for member_id, partitions in given.items()}
