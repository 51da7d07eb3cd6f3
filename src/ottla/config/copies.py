"""How many copies of a partition a cluster of so many nodes keeps, unless told otherwise."""

from __future__ import annotations


def copies(nodes: int) -> dict[str, str]:
    """With three nodes or more any one of them can be lost, and nothing that was acknowledged by
    `acks=all` with it."""
    number, in_sync = str(min(3, nodes)), "2" if nodes > 2 else "1"
    return {
        "default.replication.factor": number,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": number,
        "transaction.state.log.replication.factor": number,
        "transaction.state.log.min.isr": in_sync,
    }
