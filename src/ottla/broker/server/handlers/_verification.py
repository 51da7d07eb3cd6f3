"""Asks the transaction coordinator before a transaction's first batch to a partition (KIP-890).

The answer usually comes at once, since coordinator and partition are often on the same broker.
Otherwise the request has to wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.coordinator.transactions.transaction import Identity
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinator.transactions.service import TransactionService, Verdicts

ABORTABLE_FROM: Final = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE."""
PROTOCOL_2_FROM: Final = 12
"""The first version of Produce whose clients never add partitions themselves."""

Place: TypeAlias = tuple[str, int]

_COORDINATOR_IS_AWAY: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Inquiry:
    """Asks whether the partitions of one produce request are part of its transaction."""

    __slots__ = (
        "_answered",
        "_client",
        "_errors",
        "_id",
        "_places",
        "_transactions",
        "_version",
        "_void",
    )

    def __init__(
        self,
        transactions: TransactionService,
        version: int,
        transactional_id: str,
        client: Identity,
    ) -> None:
        self._transactions = transactions
        self._version = version
        self._id = transactional_id
        self._client = client
        self._places: list[Place] = []
        self._errors: Verdicts | None = None
        self._answered: asyncio.Future[None] | None = None
        self._void: list[Place] = []

    def add(self, place: Place) -> None:
        self._places.append(place)

    def ask(self) -> bool:
        """Ask now; return True if a final answer came at once."""
        self._transactions.take_part(
            self._id,
            self._client,
            self._places,
            add=self._version >= PROTOCOL_2_FROM,
            then=self._take_answer,
        )
        return self._errors is not None and not self.is_worth_another

    def _take_answer(self, verdicts: Verdicts) -> None:
        self._errors = verdicts
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def void(self, places: Iterable[Place]) -> None:
        """Void the consent for partitions that got a marker after the question: the transaction may
        have ended since."""
        assert self._errors is not None
        self._void = [one for one in places if self._errors.get(one) is ErrorCode.NONE]

    @property
    def is_worth_another(self) -> bool:
        return self.must_wait or bool(self._void)

    @property
    def must_wait(self) -> bool:
        """True if the broker should retry after a pause. A client of protocol 2 may begin a
        transaction while the markers of its last one are still being written, which takes a
        moment."""
        return (
            self._version >= PROTOCOL_2_FROM
            and self._errors is not None
            and ErrorCode.CONCURRENT_TRANSACTIONS in self._errors.values()
        )

    async def answered(self) -> None:
        if self._errors is None:
            self._answered = asyncio.get_running_loop().create_future()
            await self._answered

    def error_of(self, place: Place) -> KafkaError | None:
        """Return the error that forbids the append, as a code that producers handle well."""
        assert self._errors is not None
        code = self._errors.get(place, ErrorCode.NONE)
        if place in self._void:
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        if code is ErrorCode.NONE:
            return None
        if code is ErrorCode.PRODUCER_FENCED:
            # The client aborts its transaction and goes on, instead of giving up.
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if code is ErrorCode.TRANSACTION_ABORTABLE and self._version < ABORTABLE_FROM:
            code = ErrorCode.INVALID_TXN_STATE
        if code is ErrorCode.INVALID_TXN_STATE:
            return KafkaError(code, "the partition was not added to the transaction")
        is_busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < PROTOCOL_2_FROM
        if is_busy or code in _COORDINATOR_IS_AWAY:
            # Old clients would not retry on these codes. They do retry on NOT_ENOUGH_REPLICAS,
            # without looking for another leader first.
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"cannot tell whether the partition was added to the transaction ({code.name})",
            )
        return KafkaError(code)
