"""Transactions that one process writes and another one ends.

A producer prepares its transaction, passes a short text that identifies it to the process that
decides, and may close. That process ends it from anywhere. Ending it again in the same way is no
error, so that a process that crashed meanwhile can simply repeat everything.

The transaction lives for `transaction_timeout_ms` from its first record. If it is not ended by
then, the coordinator aborts it, and ending it raises `PreparedTransactionLost`.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from ottla.client.errors import PreparedTransactionLost, TransactionTimedOut, UnsupportedVersion
from ottla.client.network.cluster import Cluster
from ottla.client.producer.sending.identity import Identity
from ottla.client.producer.transactions.calls import Described, TransactionCalls
from ottla.protocol.errors import ErrorCode, KafkaError

_OVER: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The error codes for a transaction that is not open (any more) at its coordinator."""
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort"})
_EMPTY, _OPEN = "empty", "open"


class PreparedTransaction(NamedTuple):
    """Everything needed to end the transaction. Store its `str()` in any file or database; `parse`
    reads it back."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool = False
    """True if nothing was written, so that there is nothing to end."""

    def __str__(self) -> str:
        content = _EMPTY if self.is_empty else _OPEN
        return f"{self.producer_id}:{self.producer_epoch}:{content}:{self.transactional_id}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        if not isinstance(text, str):
            raise TypeError(
                f"the text of a prepared transaction is a str, not {type(text).__name__}"
            )
        try:
            producer_id, epoch, content, transactional_id = text.split(":", 3)
            if content not in (_EMPTY, _OPEN):
                raise ValueError(content)
            return cls(transactional_id, int(producer_id), int(epoch), content == _EMPTY)
        except ValueError:
            raise ValueError(
                f"{text!r} is not the text of a prepared transaction: "
                "it looks like 4000:7:open:my-transactional-id"
            ) from None


async def end_prepared(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> None:
    """Commit or abort it. Succeeds if that was done before; else `PreparedTransactionLost`."""
    if prepared.is_empty:
        return
    calls = TransactionCalls(cluster, prepared.transactional_id)
    within_ms = cluster.retry_within_ms
    try:
        async with asyncio.timeout(within_ms / 1000):
            await _end(calls, prepared, commit=commit)
    except TimeoutError:
        call = "commit_prepared()" if commit else "abort_prepared()"
        raise TransactionTimedOut(
            call, within_ms, calls.trouble, setting="default_api_timeout_ms"
        ) from calls.trouble


async def _end(calls: TransactionCalls, prepared: PreparedTransaction, *, commit: bool) -> None:
    identity = Identity(prepared.producer_id, prepared.producer_epoch)
    try:
        await calls.end(identity, commit=commit)
    except KafkaError as error:
        if error.code not in _OVER:
            raise
        found = await _described(calls)
        wanted = _COMMITTED if commit else _ABORTED
        if found is not None and found.identity == identity and found.state in wanted:
            return  # it was ended by protocol 1, which leaves the epoch unchanged
        raise PreparedTransactionLost(
            prepared,
            commit=commit,
            found=_what_happened(identity, found, error),
            was_aborted=_was_aborted(identity, found),
        ) from error


async def _described(calls: TransactionCalls) -> Described | None:
    """Return None if it is unknown: the id has expired, no permission, or the broker is too old."""
    try:
        return await calls.describe()
    except (KafkaError, UnsupportedVersion):
        return None


def _was_aborted(identity: Identity, found: Described | None) -> bool:
    return (
        found is not None
        and found.state in _ABORTED
        and found.identity.producer_id == identity.producer_id
        and found.identity.epoch in (identity.epoch, identity.epoch + 1)
    )


def _what_happened(identity: Identity, found: Described | None, error: KafkaError) -> str:
    """Describe what happened, as far as it is known. An end by protocol 2, a timeout, and a new
    producer each raise the epoch by one."""
    if found is None:
        return f"the coordinator does not have it: {error}"
    if error.code is ErrorCode.INVALID_TXN_STATE and found.state in _COMMITTED:
        return "it was committed"
    if error.code is ErrorCode.INVALID_TXN_STATE and found.state in _ABORTED:
        return "it was aborted, by request or because its transaction_timeout_ms had passed"
    if found.identity == identity and found.state == "Ongoing":
        return "another producer has taken it over, to end it itself (keep_prepared=True)"
    now = f"the transactional id is at {found.identity}, {found.state}"
    if found.identity.epoch == identity.epoch + 1 and found.state in _ABORTED:
        return (
            "it was aborted when its transaction_timeout_ms had passed, or another producer has "
            f"used the transactional id since: {now}"
        )
    return (
        f"another producer has used the transactional id since: {now}. What that one found open "
        "was aborted; what had been ended before stays so"
    )
