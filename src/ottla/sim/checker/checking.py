"""All checks of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ottla.sim.checker.anomaly import Anomaly
from ottla.sim.checker.atomicity import aborted_reads, precommitted_reads, torn_transactions
from ottla.sim.checker.group_work import bad_copies, unread_by_groups
from ottla.sim.checker.history import History
from ottla.sim.checker.ordering import disordered_polls, disordered_sends
from ottla.sim.checker.placing import duplicates, inconsistent_offsets, lost_writes, phantoms
from ottla.sim.checker.tables import lost_keys

Check = Callable[[History], Iterable[Anomaly]]

CHECKS: Final[tuple[Check, ...]] = (
    lost_writes,
    duplicates,
    phantoms,
    inconsistent_offsets,
    aborted_reads,
    precommitted_reads,
    torn_transactions,
    disordered_polls,
    disordered_sends,
    unread_by_groups,
    bad_copies,
)
TABLE_CHECKS: Final[tuple[Check, ...]] = (
    lost_keys,
    duplicates,
    phantoms,
    inconsistent_offsets,
    aborted_reads,
    precommitted_reads,
    disordered_polls,
    disordered_sends,
)
"""The checks that apply to compacted topics, where newer records of a key replace older ones."""


def anomalies(history: History) -> list[Anomaly]:
    return [anomaly for check in CHECKS for anomaly in check(history)]


def table_anomalies(history: History) -> list[Anomaly]:
    """Anomalies of compacted topics."""
    return [anomaly for check in TABLE_CHECKS for anomaly in check(history)]
