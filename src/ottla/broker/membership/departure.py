"""A broker's departure: others take over what it leads before it stops, if there are others."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.broker.membership.lifecycle import Lifecycle
from ottla.broker.metadata.image import MetadataImage
from ottla.logs import get_logger

log = get_logger("ottla.node")

LEAVE_S_MAX: Final = 5.0
"""How long a broker that stops waits for others to take over the partitions that it leads."""


class Departure:
    def __init__(self, broker_id: int) -> None:
        self._id = broker_id
        self._is_leaving = False
        self._deserted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolved when no other broker can take over, or waiting is pointless."""

    @property
    def is_deserted(self) -> bool:
        return self._deserted.done()

    async def leave(self, lifecycle: Lifecycle, image: MetadataImage) -> None:
        """Wait until other brokers have taken over the partitions led here, at most `LEAVE_S_MAX`.

        Return at once if no other broker is active, and stop waiting as soon as none is: all nodes
        may be stopped at the same time.
        """
        self._is_leaving = True
        self.brokers_changed(image)
        if self._deserted.done():
            return
        leaving = asyncio.ensure_future(lifecycle.leave(LEAVE_S_MAX))
        either: list[asyncio.Future[Any]] = [leaving, self._deserted]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            leaving.cancel()
        elif not leaving.result():
            log.warning(
                "other brokers did not take over all partitions that this broker leads",
                waited_s_max=LEAVE_S_MAX,
            )

    def brokers_changed(self, image: MetadataImage) -> None:
        others = (broker for broker in image.brokers.values() if broker.id != self._id)
        if self._is_leaving and not any(broker.is_active for broker in others):
            self.stop_waiting()

    def stop_waiting(self) -> None:
        """Stop waiting for other brokers to take over."""
        if not self._deserted.done():
            self._deserted.set_result(None)
