"""Lets connections in at the rate that settings and quotas allow.

A connection that comes too early on its listener waits, and meanwhile the listener takes no other
one: they stay in the kernel's queue. One too many from its address is kept silent for the throttle
time and then closed, so that its client does not try again at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.quotas.connections import ConnectionRates
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.server.connections.meter import log_throttled

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.network import Socket
    from ottla.runtime.runtime import Runtime, Timer

KEPT_SILENT_MAX: Final = 1_000
"""Beyond it, connections from an address with too many are closed at once."""
RATE_KEY: Final = "max.connection.creation.rate"


class Entry:
    def __init__(
        self, runtime: Runtime, config: BrokerConfig, on_open_again: Callable[[], object]
    ) -> None:
        """`on_open_again` is called when a listener may accept connections again."""
        self._runtime = runtime
        self._on_open_again = on_open_again
        self.rates = ConnectionRates(
            QuotaWindows.of_clients(config), runtime.clock.now, log_throttled
        )
        self._waiting: dict[str, tuple[Socket, Timer]] = {}
        """By listener."""
        self._silent: dict[Socket, Timer] = {}
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        limits = {one.name: config.connection_rate_of(one.name) for one in config.listeners}
        between = config.inter_broker_listener_name if config.is_broker else ""
        self.rates.configure(config[RATE_KEY], limits, between)

    def is_closed(self, listener: str) -> bool:
        """True if the listener must not accept now."""
        return listener in self._waiting

    def pass_on(self, socket: Socket, listener: str, admit: Callable[[Socket], object]) -> None:
        """Call `admit` with the socket when it may be served, if it may."""
        delay_ms = self.rates.delay_ms(listener)
        if delay_ms and listener not in self._waiting:
            timer = self._runtime.call_later(delay_ms / 1000, self._waited, listener, admit)
            self._waiting[listener] = socket, timer
        else:
            self._check_address(socket, listener, admit)

    def _waited(self, listener: str, admit: Callable[[Socket], object]) -> None:
        socket, _ = self._waiting.pop(listener)
        self._check_address(socket, listener, admit)
        self._on_open_again()

    def _check_address(
        self, socket: Socket, listener: str, admit: Callable[[Socket], object]
    ) -> None:
        throttle_ms = self.rates.refusal_ms(listener, socket.peer[0])
        if not throttle_ms:
            admit(socket)
        elif len(self._silent) >= KEPT_SILENT_MAX:
            socket.close()
        else:
            timer = self._runtime.call_later(throttle_ms / 1000, self._end, socket)
            self._silent[socket] = timer

    def _end(self, socket: Socket) -> None:
        self._silent.pop(socket).cancel()
        socket.close()

    def close(self, listener: str | None = None) -> None:
        """Close the connections that wait: those of one listener, or all."""
        for name in list(self._waiting):
            if listener in (None, name):
                socket, timer = self._waiting.pop(name)
                timer.cancel()
                socket.close()
        if listener is None:
            for socket in list(self._silent):
                self._end(socket)
