"""The default number of replicas in a cluster of a given number of nodes."""

from __future__ import annotations


def copies(nodes: int) -> dict[str, str]:
    """Return the settings. With three nodes or more any one of them can be lost without losing
    anything that was acknowledged with `acks=all`."""
    number, in_sync = str(min(3, nodes)), "2" if nodes > 2 else "1"
    return {
        "default.replication.factor": number,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": number,
        "transaction.state.log.replication.factor": number,
        "transaction.state.log.min.isr": in_sync,
    }
