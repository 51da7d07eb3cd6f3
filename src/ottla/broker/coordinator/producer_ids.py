"""A supply of producer ids, so that a step that needs one need not wait for the controller.

The controller allocates them in blocks. The next block is requested when the present one is nearly
used up; the rest of a block is never used after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.broker.coordinator.controller_calls import ASK_TIMEOUT_MS, AskController
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

log = get_logger("ottla.coordinator")

FETCH_AT: Final = 0.1
"""The next block is requested when this share of a block is left."""


class ProducerIds:
    def __init__(
        self,
        ask: AskController,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`spawn` starts a background task."""
        self._ask = ask
        self._spawn = spawn
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._block = range(0)
        self._fetch_below = 0
        self._spare: range | None = None
        self._lock = asyncio.Lock()
        self._filling = False

    def take(self) -> int:
        """Return an id that no producer of this cluster ever had; raises `KafkaError` if none is
        available."""
        if not self._block and self._spare is not None:
            self._block, self._spare = self._spare, None
            self._fetch_below = int(len(self._block) * FETCH_AT)
        if len(self._block) <= self._fetch_below and self._spare is None and not self._filling:
            self._filling = True
            self._spawn(self._fill())
        if not self._block:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        taken, self._block = self._block[0], self._block[1:]
        return taken

    async def next(self) -> int:
        """Like `take`, but waits for the controller if necessary."""
        await self.wait_available()
        return self.take()

    async def wait_available(self) -> None:
        """Wait until an id is available."""
        while not self._block and self._spare is None:
            async with self._lock:
                if not self._block and self._spare is None:
                    self._spare = await self._fetch()

    async def _fill(self) -> None:
        try:
            async with self._lock:
                if self._spare is None:
                    self._spare = await self._fetch()
        except KafkaError as error:
            log.warning("cannot get producer ids", error=str(error))
        finally:
            self._filling = False

    async def _fetch(self) -> range:
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._ask(request, timeout_ms=ASK_TIMEOUT_MS)
        except KafkaError as error:
            raise _not_now(str(error)) from error
        if response.error_code:
            raise _not_now(ErrorCode.of(response.error_code).name)
        first = response.producer_id_start
        return range(first, first + response.producer_id_len)


def _not_now(reason: str) -> KafkaError:
    """Return an error that makes every producer retry."""
    return KafkaError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the controller gave no producer ids: {reason}"
    )
