"""The methods of a `Producer` that are about transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ottla.client.errors import TransactionStateError
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.producer.engine import Engine
    from ottla.client.producer.prepared import PreparedTransaction
    from ottla.client.producer.transaction_manager import TransactionManager

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class TransactionMethods:
    """Each call may take `max_block_ms`; then it raises `TransactionTimedOut`: call it again.

    `TransactionFailed`: the transaction can only be aborted, after which the producer goes on.
    `TransactionFatal`, `ProducerFenced`: the producer can only be closed.
    """

    def _running(self) -> Engine:
        raise NotImplementedError

    def _transactions(self) -> TransactionManager:
        engine = self._running()
        engine.intake.check_loop()
        manager = engine.transactions
        if manager is None:
            raise TransactionStateError("this producer has no transactions: set transactional_id")
        return manager

    async def init_transactions(self, *, keep_prepared: bool = False) -> None:
        """Become the one producer of this transactional id. To be called once, before all else.

        A producer that had it is fenced, and its open transaction aborted. With `keep_prepared`
        (and `transaction_two_phase_commit_enable`) that is kept, for `complete_transaction`.
        """
        await self._transactions().init(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        await self._transactions().begin()

    async def commit_transaction(self) -> None:
        """Send what is left, and make all of the transaction visible at once.

        Raises `TransactionFailed` if a record of it was lost: then nothing of it becomes visible.
        """
        await self._transactions().commit()

    async def abort_transaction(self) -> None:
        """Drop what was not sent; what was is never seen by readers of committed records."""
        await self._transactions().abort()
        # Whoever aborts knows that records of the transaction have failed.
        self._running().failures.forget()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with producer.transaction():` commits at the end of the block. If the block or the
        commit fails it aborts, unless that is not possible any more."""
        async with self._transactions().transaction(self.abort_transaction):
            yield

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit offsets of a consumer group (of the next records to read) with the transaction.

        `group` is `consumer.group_metadata()`: by it the coordinator refuses the offsets of a
        consumer whose partitions another one has by now.
        """
        if not isinstance(group, GroupMetadata):
            raise TypeError(f"the group is {group!r}; give consumer.group_metadata()")
        checked = {
            TopicPartition(*partition): _offset(partition, given)
            for partition, given in offsets.items()
        }
        await self._transactions().send_offsets(checked, group)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Send what is left, and keep the transaction open for somebody else to end.

        `Admin.commit_prepared` or `abort_prepared` end it from any process; closing this producer
        leaves it open. It can also be ended by this producer, and takes no more records.
        """
        return await self._transactions().prepare()

    async def complete_transaction(self, prepared: PreparedTransaction) -> None:
        """After `init_transactions(keep_prepared=True)`: commit the transaction that was found if
        it is `prepared`, else abort it. If none was found it has ended, and nothing happens."""
        await self._transactions().complete(prepared)


def _offset(partition: TopicPartition, given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    found = OffsetAndMetadata(given) if isinstance(given, int) else given
    if found.offset < 0:
        raise ValueError(f"the offset of {partition} is {found.offset}; it must not be negative")
    return found
