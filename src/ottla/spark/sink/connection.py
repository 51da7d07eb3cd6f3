"""The connection from a worker process to the cluster, shared in turn by tasks and commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ottla.blocking.loop_thread import LoopThread, acquire, release
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientSettings
from ottla.runtime.os_runtime import OsRuntime
from ottla.spark.clients import KeptClients
from ottla.spark.first_contact import Patience, reach
from ottla.spark.sink.options import SinkOptions

T = TypeVar("T")


class Closable(Protocol):
    async def close(self) -> None: ...


class SinkConnection:
    """A cluster, and the loop in whose thread it is used."""

    def __init__(self, options: SinkOptions, *, is_first: bool = False) -> None:
        given = options.cluster_options
        self._settings = settings_from(ClientSettings, given)
        self._patience = Patience.of(given, self._settings) if is_first else None
        self._thread: LoopThread | None = None
        self._runtime: OsRuntime | None = None
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "not started"
        return self._cluster

    def start(self) -> None:
        self._thread = acquire()
        try:
            self._thread.call(self._connect)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        try:
            thread.call(self._hang_up)
        finally:
            release(thread)

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        assert self._thread is not None, "not started"
        return self._thread.call(work)

    @contextmanager
    def using(self, one: Closable) -> Iterator[None]:
        """Close it at the end, in the loop it belongs to."""
        try:
            yield
        finally:
            self.call(one.close)

    async def _connect(self) -> None:
        self._runtime = OsRuntime()
        self._cluster = Cluster.of(self._settings, self._runtime)
        if self._patience is not None:
            await reach(self._cluster, self._patience)
        else:
            await self._cluster.retrying(self._cluster.any_broker)

    async def _hang_up(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        if self._runtime is not None:
            await self._runtime.close()


_kept: KeptClients[SinkConnection] = KeptClients()


@contextmanager
def connected(options: SinkOptions, *, is_first: bool = False) -> Iterator[SinkConnection]:
    """Yield a connection; if something fails while it is used, the next one is new.

    `is_first`: nothing has been written yet, so the address may be wrong.
    """
    key = tuple(sorted(options.cluster_options.items()))
    with _kept.borrow(key, lambda: SinkConnection(options, is_first=is_first)) as connection:
        yield connection
