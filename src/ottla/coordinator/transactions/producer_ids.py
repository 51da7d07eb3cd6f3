"""Producer ids at hand, so that a step that needs one need not wait for the controller."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError

log = get_logger("ottla.coordinator")

AT_HAND: Final = 20


class ProducerIds:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[int]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`fetch` gets one new id, which mostly costs nothing; `spawn` runs a task beside this."""
        self._fetch = fetch
        self._spawn = spawn
        self._at_hand: deque[int] = deque()
        self._filling = False

    def take(self) -> int:
        """An id that nobody had before."""
        if len(self._at_hand) <= AT_HAND // 2 and not self._filling:
            self._filling = True
            self._spawn(self._fill())
        if not self._at_hand:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        return self._at_hand.popleft()

    async def some(self) -> None:
        """Wait until there are some."""
        if not self._at_hand:
            self._at_hand.append(await self._fetch())

    async def _fill(self) -> None:
        try:
            while len(self._at_hand) < AT_HAND:
                self._at_hand.append(await self._fetch())
        except KafkaError as error:
            log.warning("cannot get producer ids", error=str(error))
        finally:
            self._filling = False
