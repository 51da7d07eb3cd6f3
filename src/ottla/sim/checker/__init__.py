"""Compares what clients saw of a cluster with what Kafka promises them; pure.

A `History` is written during a run: each record sent and its outcome, the records that each reader
was given, and the contents of whole partitions at the end. `anomalies` lists everything in it that
no allowed course of events explains, by the names that Jepsen's Kafka tests use.
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
