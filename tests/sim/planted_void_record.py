"""Planted: compaction gives up a record for one of its key that was aborted."""

import pytest

from ottla.broker.storage.cleaner.compaction import Compaction
from ottla.broker.storage.cleaner.transactions import CleanedTransactions
from ottla.broker.storage.segments.batch_scan import HeaderFields


def plant(patch: pytest.MonkeyPatch) -> None:
    look_up = Compaction._map_batch

    def believe(
        self: Compaction,
        header: HeaderFields,
        batch: memoryview,
        transactions: CleanedTransactions,
    ) -> int | None:
        return look_up(self, header, batch, CleanedTransactions([], 0))

    patch.setattr(Compaction, "_map_batch", believe)
