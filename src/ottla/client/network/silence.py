"""Logs addresses that do not answer: soon, with the reason, and once for each reason.

A client keeps trying, for a minute or for ever. Without a log line, a wrong address, a firewall or
a broker that advertises an unknown host name all look like a topic without records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.client.errors import (
    Address,
    RequestTimedOut,
    Unreachable,
    continued,
    show_address,
)
from ottla.client.network.backoff import may_pass
from ottla.runtime.runtime import Runtime

log = logging.getLogger("ottla.client")

SLOW_S: Final = 1.5
"""An attempt that takes longer is logged while it lasts: a firewall drops packets silently."""

ADDRESSES_MAX: Final = 1_000
"""How many logged addresses to remember; the oldest are forgotten, and may be logged again."""

IS_SLOW: Final = "is_slow"
"""The attribute of a log record about an attempt that is still going on."""

_SILENT = "silent"


class SilentAddresses:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._told: dict[Address, str] = {}
        """The reason that was logged last, until the address answers."""

    @contextmanager
    def watch(self, address: Address) -> Iterator[None]:
        """Use it around one attempt to connect."""
        timer = self._runtime.call_later(SLOW_S, lambda: self._slow(address))
        try:
            yield
        except Exception as error:
            self._failed(address, error)
            raise
        else:
            if self._told.pop(address, None) is not None:
                log.info(
                    "connected to %s, which could not be reached before", show_address(address)
                )
        finally:
            timer.cancel()

    def _slow(self, address: Address) -> None:
        if self._is_new(address, _SILENT):
            log.warning(
                "cannot connect to %s: no answer for %g s; still trying",
                show_address(address),
                SLOW_S,
                extra={IS_SLOW: True},
            )

    def _failed(self, address: Address, error: Exception) -> None:
        timed_out = isinstance(error, RequestTimedOut) or (
            isinstance(error, Unreachable) and error.timed_out
        )
        if self._is_new(address, _SILENT if timed_out else str(error)):
            told = str(error)
            log.warning("%s", continued(told, "still trying", ";") if may_pass(error) else told)

    def _is_new(self, address: Address, reason: str) -> bool:
        if self._told.get(address) == reason:
            return False
        while len(self._told) >= ADDRESSES_MAX:
            del self._told[next(iter(self._told))]
        self._told[address] = reason
        return True
