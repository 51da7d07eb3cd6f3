"""The input of assignors: partitions, their racks, and the order of members.

Reading from a replica in the member's own rack is cheapest. Racks count only if they can make a
difference: if members and partitions share racks, and not every partition is in all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.client.consumer.assignors.assignor import Subscription
from ottla.client.network.metadata import ClusterView
from ottla.client.values import TopicPartition

Racks = frozenset[str]
Layout = dict[str, tuple[Racks, ...]]
"""The partitions of each topic by index, each as the racks that hold a replica of it."""


def layout_of(view: ClusterView, members: Mapping[str, Subscription]) -> Layout:
    """Return the partitions of all subscribed topics, without topics of unknown partitions."""
    wanted = {topic for member in members.values() for topic in member.topics}
    layout: Layout = {}
    for name in sorted(wanted):
        topic = view.topics.get(name)
        if topic is not None and topic.partitions:
            layout[name] = tuple(_racks(view, one.replicas) for one in topic.partitions)
    return layout


def _racks(view: ClusterView, replicas: Iterable[int]) -> Racks:
    brokers = (view.brokers.get(node_id) for node_id in replicas)
    return frozenset(one.rack for one in brokers if one is not None and one.rack is not None)


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return static members first, sorted by instance id, which survives restarts; then the others
    by member id."""

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, instance_id or member_id

    return sorted(members, key=rank)


def member_racks(members: Mapping[str, Subscription]) -> dict[str, str]:
    return {member_id: one.rack for member_id, one in members.items() if one.rack}


def racks_matter(of_members: Collection[str], of_partitions: Sequence[Racks]) -> bool:
    everywhere = frozenset().union(*of_partitions)
    if everywhere.isdisjoint(of_members):
        return False
    return any(racks != everywhere for racks in of_partitions)


def partitions_of(layout: Layout, topics: Iterable[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic in topics for index in range(len(layout[topic]))]
