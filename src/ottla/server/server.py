"""The listeners and everything that bounds what connections may cost the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.logs import get_logger
from ottla.runtime.network import BufferSizes
from ottla.server.connection import Connection
from ottla.server.dispatch import BROKERS, CONTROLLERS, Dispatcher
from ottla.server.limits import ConnectionLimits, total_within

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.config.listeners import Listener as ListenerConfig
    from ottla.node import Node
    from ottla.runtime.network import Listener, Socket
    from ottla.runtime.runtime import Timer

log = get_logger("ottla.network")

RECEIVE_BUFFER_BYTES: Final = 512 * 1024
IDLE_SWEEPS_PER_TIMEOUT: Final = 4
IDLE_SWEEP_S_MAX: Final = 60.0


class Server:
    def __init__(self, node: Node) -> None:
        config = node.config
        self.node = node
        self.runtime = node.runtime
        self._dispatchers = {kind: Dispatcher(kind) for kind in (BROKERS, CONTROLLERS)}
        self.receive_view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """Shared by all connections: what a read brings is served before the next read."""
        self.request_bytes_max: int = config["socket.request.max.bytes"]
        self.limits = ConnectionLimits.from_config(config, node.runtime.open_files_max)
        self._idle_s: float = config["connections.max.idle.ms"] / 1000
        self._buffers = buffer_sizes(config)
        self._backlog: int = config["socket.listen.backlog.size"]
        self._connections: dict[Connection, None] = {}
        self._listeners: list[tuple[str, Listener]] = []
        self._serving: set[str] = set()
        self._accept_paused = False
        self._idle_timer: Timer | None = None

    def configure(self, config: BrokerConfig) -> None:
        """Take what may change at run time; connections that exist stay."""
        open_files_max = self.runtime.open_files_max
        self.limits.total_max = total_within(config["max.connections"], open_files_max)
        self.limits.per_address_max = config["max.connections.per.ip"]
        self.limits.overrides = config.max_connections_by_ip

    def listen(self, listener: ListenerConfig, kind: str = BROKERS) -> tuple[str, int]:
        """Open one listener and return where it really listens. Who connects has to wait until
        `start_serving`: the port must be known before the node is ready to answer."""
        dispatcher = self._dispatchers[kind]
        opened = self.runtime.network.listen(
            listener.host,
            listener.port,
            lambda socket: self._accepted(socket, listener.name, dispatcher),
            backlog=self._backlog,
            buffers=self._buffers,
        )
        opened.pause()
        self._listeners.append((kind, opened))
        return opened.address

    def start_serving(self, kind: str = BROKERS) -> None:
        """Answer those who come by listeners of this kind."""
        self._serving.add(kind)
        self._resume_listeners()
        if self._idle_s > 0 and self._idle_timer is None:
            self._schedule_idle_sweep()

    def _resume_listeners(self) -> None:
        for kind, listener in self._listeners:
            if kind in self._serving and not (self._accept_paused and kind == BROKERS):
                listener.resume()

    def _accepted(self, socket: Socket, listener_name: str, dispatcher: Dispatcher) -> None:
        if dispatcher.kind == CONTROLLERS:
            # Other nodes: a flood of clients must not keep them from electing a leader.
            self._connections[Connection(socket, listener_name, dispatcher, self)] = None
            return
        refusal = self.limits.admit(socket.peer[0])
        if refusal is not None:
            log.warning("refusing a connection", peer=socket.peer, reason=refusal)
            socket.close()
            return
        self._connections[Connection(socket, listener_name, dispatcher, self)] = None
        if self.limits.is_full and not self._accept_paused:
            log.warning("connection limit reached; new ones wait", limit=self.limits.total_max)
            self._accept_paused = True
            for kind, listener in self._listeners:
                if kind == BROKERS:
                    listener.pause()

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        if self._connections.pop(connection, self) is self or connection.kind == CONTROLLERS:
            return
        self.limits.leave(connection.peer[0])
        if self._accept_paused and not self.limits.is_full:
            self._accept_paused = False
            self._resume_listeners()

    def _schedule_idle_sweep(self) -> None:
        delay_s = min(IDLE_SWEEP_S_MAX, self._idle_s / IDLE_SWEEPS_PER_TIMEOUT)
        self._idle_timer = self.runtime.call_later(delay_s, self._sweep_idle)

    def _sweep_idle(self) -> None:
        oldest = self.runtime.clock.now() - self._idle_s
        for connection in list(self._connections):
            if connection.last_active < oldest and not connection.is_waiting:
                connection.close(f"idle for {self._idle_s:.0f} s (connections.max.idle.ms)")
        self._schedule_idle_sweep()

    def stop_serving(self, kind: str) -> None:
        """Close the listeners of this kind, and the connections that came in by them."""
        for listener in [listener for of, listener in self._listeners if of == kind]:
            listener.close()
        self._listeners = [(of, listener) for of, listener in self._listeners if of != kind]
        for connection in [one for one in self._connections if one.kind == kind]:
            connection.close("the broker is stopping")

    def close(self) -> None:
        self.stop_serving(BROKERS)
        self.stop_serving(CONTROLLERS)
        if self._idle_timer is not None:
            self._idle_timer.cancel()


def buffer_sizes(config: BrokerConfig) -> BufferSizes:
    """Kafka's default for sending: what is in flight stays in the processor's cache, and cached
    reads cost a third of what they do with the buffers that Linux would grow. Receiving is left to
    the OS unless it was set: a produce arrives in fewer pieces, at half the cost."""
    receive = "socket.receive.buffer.bytes"
    return BufferSizes(
        send=config["socket.send.buffer.bytes"],
        receive=config[receive] if receive in config.explicit else -1,
    )
