"""Planted: an EndTxn that comes while the last markers are on their way fences its producer."""

import pytest

from ottla.broker.coordinator.transactions import shard
from ottla.broker.coordinator.transactions.ending import Judgement, judge_end
from ottla.broker.coordinator.transactions.states import PREPARED
from ottla.broker.coordinator.transactions.transaction import Identity, Transaction
from ottla.protocol.errors import ErrorCode


def plant(patch: pytest.MonkeyPatch) -> None:
    def judge(
        transaction: Transaction, client: Identity, *, commit: bool, version: int
    ) -> Judgement:
        if transaction.state in PREPARED and client == transaction.following:
            return ErrorCode.PRODUCER_FENCED
        return judge_end(transaction, client, commit=commit, version=version)

    patch.setattr(shard, "judge_end", judge)
