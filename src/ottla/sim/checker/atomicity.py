"""Transactions: a committed one is visible as a whole and not early, an aborted one never."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.sim.checker.anomaly import Anomaly, Kind
from ottla.sim.checker.history import History, Outcome, Sending, Transaction


def aborted_reads(history: History) -> Iterator[Anomaly]:
    for reader, where, sending, _ in _committed_reads(history):
        transaction = sending.transaction
        if transaction is not None and transaction.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.ABORTED_READ, where, f"{reader} was given {sending.value}")


def precommitted_reads(history: History) -> Iterator[Anomaly]:
    for reader, where, sending, at_s in _committed_reads(history):
        transaction = sending.transaction
        if transaction is None:
            continue
        asked_s = transaction.end_asked_s
        if asked_s is None or at_s < asked_s:
            when = "never" if asked_s is None else f"not before {asked_s:.3f} s"
            yield Anomaly(
                Kind.PRECOMMITTED_READ,
                where,
                f"{reader} was given {sending.value} at {at_s:.3f} s; its commit was asked {when}",
            )


def _committed_reads(history: History) -> Iterator[tuple[str, str, Sending, float]]:
    sent = {(sending.partition, sending.value): sending for sending in history.sendings}
    for reader in history.readers:
        if reader.committed:
            for partition, offset, value, at_s in reader.seen:
                if (sending := sent.get((partition, value))) is not None:
                    yield reader.name, f"{partition} @{offset}", sending, at_s
    for partition, log in history.logs.items():
        for offset, value in log.committed:
            if (sending := sent.get((partition, value))) is not None:
                yield "the last reader", f"{partition} @{offset}", sending, float("inf")


@dataclass
class _Parts:
    visible: list[Sending]
    hidden: list[Sending]


def torn_transactions(history: History) -> Iterator[Anomaly]:
    """Find transactions that are visible in part. A committed one must be visible as a whole; one
    whose outcome is unknown, as a whole or not at all."""
    for transaction, parts in _split(history).values():
        if transaction.outcome is Outcome.OK and parts.hidden:
            text = f"{_names(parts.hidden)} of a committed transaction cannot be read"
            yield Anomaly(Kind.TORN_TRANSACTION, transaction.producer, text)
        elif parts.visible and parts.hidden:
            text = f"{_names(parts.visible)} can be read, {_names(parts.hidden)} cannot"
            yield Anomaly(Kind.TORN_TRANSACTION, transaction.producer, text)


def _split(history: History) -> dict[int, tuple[Transaction, _Parts]]:
    visible = {
        (partition, value) for partition, log in history.logs.items() for _, value in log.committed
    }
    found: dict[int, tuple[Transaction, _Parts]] = {}
    for sending in history.sendings:
        transaction, log = sending.transaction, history.logs.get(sending.partition)
        if transaction is None or log is None or sending.outcome is not Outcome.OK:
            continue
        if sending.offset is not None and sending.offset < log.start:
            continue
        parts = found.setdefault(id(transaction), (transaction, _Parts([], [])))[1]
        is_visible = (sending.partition, sending.value) in visible
        (parts.visible if is_visible else parts.hidden).append(sending)
    return found


def _names(sendings: list[Sending]) -> str:
    return ", ".join(f"{sending.value} ({sending.partition})" for sending in sendings[:3])
