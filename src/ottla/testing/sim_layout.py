"""The settings of the nodes of a user's simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.config.copies import copies
from ottla.sim.cluster.shape import STEADY, Layout, NodeShape
from ottla.testing.group import as_texts, check_nodes


@dataclass(frozen=True)
class SimLayout(Layout):
    by_node: dict[int, dict[str, str]] = field(default_factory=dict)

    def node_settings(self, node: NodeShape) -> dict[str, str]:
        return {**super().node_settings(node), **self.by_node.get(node.id, {})}


def sim_layout(
    count: int,
    settings: Mapping[str, object],
    by_node: Mapping[int, Mapping[str, object]],
) -> SimLayout:
    """Build the layout; settings given by the test take precedence."""
    check_nodes(count, by_node)
    told = {
        **STEADY,
        **copies(count),
        "broker.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "5000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        **as_texts(settings),
    }
    return SimLayout(
        tuple(NodeShape(number) for number in range(1, count + 1)),
        replication=int(told["default.replication.factor"]),
        min_insync=int(told["min.insync.replicas"]),
        synced=told.get("log.flush.interval.messages") == "1",
        settings=told,
        by_node={number: as_texts(one) for number, one in by_node.items()},
    )
