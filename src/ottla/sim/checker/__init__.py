"""Holds what clients saw of a cluster against what Kafka promises them; pure.

A `History` is written down during a run: what was sent and what became of it, what every reader was
handed, what whole partitions held in the end. `anomalies` names everything in it that no allowed
course of events explains, by the names that Jepsen's Kafka tests use.
"""

from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.checking import anomalies, table_anomalies
from ottla.sim.checker.history import History, Outcome, Reader, Sending, Transaction
from ottla.sim.checker.tables import compacted_count

__all__ = [
    "Anomaly",
    "History",
    "Kind",
    "Outcome",
    "Reader",
    "Sending",
    "Transaction",
    "anomalies",
    "compacted_count",
    "table_anomalies",
]
