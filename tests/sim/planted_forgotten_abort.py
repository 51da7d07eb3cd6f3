"""Planted: the end of an aborted transaction is kept nowhere: its records are handed out."""

import pytest

from ottla.broker.storage.segments.transaction_index import AbortedTransaction, TransactionIndex


def plant(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TransactionIndex, aborted: AbortedTransaction) -> None:
        pass

    patch.setattr(TransactionIndex, "append", forget)
