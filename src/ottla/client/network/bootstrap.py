"""Finds any broker: a connected one, a known one, or one of the bootstrap list.

All brokers may have moved since they were last seen (KIP-899). So if none of the known ones can be
reached, the bootstrap list is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.client.errors import (
    Address,
    AuthenticationFailed,
    IllegalState,
    NoBrokerReachable,
    TlsFailed,
)
from ottla.client.network.metadata import Broker
from ottla.client.network.pool import Pool, shared
from ottla.network.connection import Connection
from ottla.runtime.racing import AllFailed, first_of
from ottla.runtime.runtime import Runtime

NEXT_AFTER_S = 1.0
"""After this time without an answer, the next broker is tried as well."""


class Bootstrap:
    def __init__(
        self,
        runtime: Runtime,
        pool: Pool,
        addresses: Sequence[Address],
        brokers: Callable[[], Mapping[int, Broker]],
        *,
        returns: bool,
    ) -> None:
        """`brokers` returns the known brokers; with `returns`, the bootstrap list may be tried
        again even if brokers are known."""
        self._runtime = runtime
        self._pool = pool
        # Numbered below zero, because their broker ids are unknown until they answer.
        self._seeds = {-1 - index: address for index, address in enumerate(addresses)}
        self._brokers = brokers
        self._returns = returns
        self._seeking: asyncio.Task[Connection] | None = None

    async def any_broker(self) -> Connection:
        found = self._pool.least_loaded()
        if found is not None:
            return found
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._seek(), name="bootstrap")
            self._seeking.add_done_callback(_look_at)
        return await shared(self._seeking)

    def close(self) -> None:
        if self._seeking is not None:
            self._seeking.cancel()

    async def _seek(self) -> Connection:
        brokers = self._brokers()
        known = {
            node_id: (broker.host, broker.port)
            for node_id, broker in brokers.items()
            if not (self._returns and self._pool.is_backing_off(node_id))
        }
        rounds = [known, self._seeds] if self._returns or not brokers else [known]
        failures: list[BaseException] = []
        for candidates in rounds:
            try:
                return await self._first_of(candidates)
            except AllFailed as failed:
                failures += failed.errors
        raise _verdict(failures)

    async def _first_of(self, candidates: Mapping[int, Address]) -> Connection:
        attempts = [partial(self._pool.connect, *item) for item in candidates.items()]
        if candidates is not self._seeds:
            self._runtime.random.shuffle(attempts)  # spreads clients over the brokers
        return await first_of(attempts, stagger_s=NEXT_AFTER_S, discard=_keep)


def _keep(_: Connection) -> None:
    """Do nothing: the connection stays in the pool."""


def _look_at(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled():
        task.exception()


def _verdict(failures: Sequence[BaseException]) -> BaseException:
    """Return the error to raise; permanent ones come first."""
    for failure in failures:
        if isinstance(failure, (AuthenticationFailed, IllegalState)):
            return failure
    if failures and all(isinstance(failure, TlsFailed) for failure in failures):
        return failures[0]
    return NoBrokerReachable([one for one in failures if isinstance(one, Exception)])
