"""Planted: the broker lets in every other connection that is one too many."""

import itertools

import pytest

from ottla.broker.quotas.connections import ConnectionRates

refusal_ms = ConnectionRates.refusal_ms


def plant(patch: pytest.MonkeyPatch) -> None:
    turns = itertools.cycle((True, False))

    def at_times(self: ConnectionRates, listener: str, address: str) -> int:
        told_ms = refusal_ms(self, listener, address)
        return told_ms if next(turns) else 0

    patch.setattr(ConnectionRates, "refusal_ms", at_times)
