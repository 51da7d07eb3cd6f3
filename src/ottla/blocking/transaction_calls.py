"""The methods of a blocking `Producer` that are about transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ottla.blocking.client import BlockingClient
from ottla.client.producer.prepared import PreparedTransaction
from ottla.client.producer.producer import Producer
from ottla.client.producer.transaction_methods import Offsets
from ottla.client.values import GroupMetadata

T = TypeVar("T")


class TransactionCalls(BlockingClient):
    _producer: Producer

    def _ordered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for a call that comes after every record that was given before."""
        raise NotImplementedError

    def init_transactions(self, *, keep_prepared: bool = False) -> None:
        self._ordered(lambda: self._producer.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        self._ordered(self._producer.begin_transaction)

    def commit_transaction(self) -> None:
        self._ordered(self._producer.commit_transaction)

    def abort_transaction(self) -> None:
        self._ordered(self._producer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        under_way = self._producer.transaction()
        self._ordered(under_way.__aenter__)
        try:
            yield
        except BaseException as error:
            failure = error
            self._ordered(
                lambda: under_way.__aexit__(type(failure), failure, failure.__traceback__)
            )
            raise
        self._ordered(lambda: under_way.__aexit__(None, None, None))

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        self._ordered(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def prepare_transaction(self) -> PreparedTransaction:
        return self._ordered(self._producer.prepare_transaction)

    def complete_transaction(self, prepared: PreparedTransaction) -> None:
        self._ordered(lambda: self._producer.complete_transaction(prepared))
