"""Clients that outlive a task: Spark uses a Python worker for many tasks, and connecting takes
longer than reading a small batch.

A task borrows a client and gives it back; the newest few idle clients are kept. A forked child
begins with none: connections belong to the process that made them.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

log = logging.getLogger("ottla.spark")

IDLE_MAX = 4
"""The number of idle clients of a kind that stay connected."""


class Client(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Client)


class KeptClients(Generic[C]):
    """Keeps clients of one kind for reuse, keyed by the options they were made from."""

    def __init__(self, idle_max: int = IDLE_MAX) -> None:
        self._idle_max = idle_max
        self._idle: dict[Hashable, list[C]] = {}
        os.register_at_fork(after_in_child=self._idle.clear)

    @contextlib.contextmanager
    def borrow(self, key: Hashable, make: Callable[[], C]) -> Iterator[C]:
        """Yield a started client. If its use fails, it is closed and not kept."""
        client = self._take(key)
        if client is None:
            client = make()
            client.start()
        try:
            yield client
        except BaseException:
            _close(client)
            raise
        self._give_back(key, client)

    def close(self) -> None:
        idle = [client for clients in self._idle.values() for client in clients]
        self._idle.clear()
        for client in idle:
            _close(client)

    def _take(self, key: Hashable) -> C | None:
        waiting = self._idle.get(key)
        if not waiting:
            return None
        client = waiting.pop()
        if not waiting:
            del self._idle[key]
        return client

    def _give_back(self, key: Hashable, client: C) -> None:
        # To the end, where the newest are.
        waiting = self._idle.pop(key, [])
        self._idle[key] = [*waiting, client]
        while sum(map(len, self._idle.values())) > self._idle_max:
            oldest = next(iter(self._idle))
            _close(self._idle[oldest].pop(0))
            if not self._idle[oldest]:
                del self._idle[oldest]


def _close(client: Client) -> None:
    try:
        client.close()
    except Exception:
        log.debug("a client could not be closed", exc_info=True)
