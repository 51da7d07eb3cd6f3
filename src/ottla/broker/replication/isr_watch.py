"""Checks periodically whether followers of the partitions led here have fallen behind.

A follower that fetches is noticed by its fetches; one that stops is noticed only by time. The check
runs twice per `replica.lag.time.max.ms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.replication import isr

if TYPE_CHECKING:
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.partition import Partition
    from ottla.runtime.runtime import Runtime, Timer

PORTION: Final = 200
"""Partitions checked in one turn of the loop."""
PERIOD_S_MIN: Final = 0.05


class IsrWatch:
    def __init__(
        self, runtime: Runtime, view: ClusterView, partitions: Callable[[], Iterable[Partition]]
    ) -> None:
        self._runtime = runtime
        self._view = view
        self._partitions = partitions
        self._timer: Timer | None = None
        self._stopped = True

    def start(self) -> None:
        self._stopped = False
        self._wait()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def review(self) -> None:
        """Update all partitions after brokers came or went, which may have held high watermarks
        back."""
        for partition in self._led():
            isr.review(partition)

    def _led(self) -> list[Partition]:
        return [partition for partition in self._partitions() if partition.leading is not None]

    def _wait(self) -> None:
        period_s = max(PERIOD_S_MIN, self._view.lag_max_ms / 2000)
        self._timer = self._runtime.call_later(period_s, self._start_check)

    def _start_check(self) -> None:
        self._runtime.spawn(self._check_all(), name="isr-watch")

    async def _check_all(self) -> None:
        try:
            led = self._led()
            for begin in range(0, len(led), PORTION):
                now_ms = self._view.now_ms()
                for partition in led[begin : begin + PORTION]:
                    isr.shrink(partition, now_ms)
                await asyncio.sleep(0)
        finally:
            if not self._stopped:
                self._wait()
