"""The listeners, and the bounds on what connections may cost the broker."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.server.caller import NO_CONNECTION, PLAINTEXT, Caller
from ottla.broker.server.connections.connection import Connection
from ottla.broker.server.connections.entry import Entry
from ottla.broker.server.connections.failure_log import FailureLog
from ottla.broker.server.connections.limits import ConnectionLimits
from ottla.broker.server.connections.meter import log_throttled
from ottla.broker.server.contract import BROKERS, CONTROLLERS
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.large_requests import LargeRequests
from ottla.logs import get_logger
from ottla.runtime.network import BufferSizes
from ottla.runtime.pace import SLICE_S
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.server.connections.handshakes import Handshakes
    from ottla.broker.server.services import NodeServices
    from ottla.broker.server.sign_in.conversation import SignedIn
    from ottla.broker.server.sign_in.session import Session
    from ottla.broker.server.sign_in.sign_ins import ListenerSasl, SignIns
    from ottla.config.broker import BrokerConfig
    from ottla.config.listeners import Listener as ListenerConfig
    from ottla.network.node_tls import ListenerTls
    from ottla.runtime.network import Listener, Socket
    from ottla.runtime.runtime import Runtime, Timer
    from ottla.runtime.tls.socket import TlsSocket
    from ottla.security.principal import KafkaPrincipal

log = get_logger("ottla.network")

RECEIVE_BUFFER_BYTES: Final = 512 * 1024
IDLE_SWEEPS_PER_TIMEOUT: Final = 4
IDLE_SWEEP_S_MAX: Final = 60.0
EXCESS_CLOSED_AT_ONCE: Final = 100
"""Beyond it, others have their turn before more connections are closed."""


class _Served(NamedTuple):
    services: NodeServices
    on_close: Callable[[int], object]


class _Entrance(NamedTuple):
    """A listener: what a client has to pass before its requests are served."""

    kind: str
    name: str
    security_protocol: str
    tls: ListenerTls | None
    sasl: ListenerSasl | None


class _Opened(NamedTuple):
    kind: str
    name: str
    listener: Listener


class ListenerSecurity(NamedTuple):
    security_protocol: str = PLAINTEXT
    tls: ListenerTls | None = None
    sasl: ListenerSasl | None = None


class Server:
    """It is one thing: a connection takes a way through its methods, from a listener that accepts
    it to the count of those that ended, and each bound is checked at its place on that way."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        on_file_failed: Callable[[str, OSError], object],
        security_of: Callable[[str], ListenerSecurity] = lambda listener: ListenerSecurity(),
    ) -> None:
        """`on_file_failed` is called with the path of a segment file that cannot be sent.
        `security_of` returns the TLS and the sign-in of a listener that is to be opened."""
        self.runtime = runtime
        self.on_file_failed = on_file_failed
        self._security_of = security_of
        self.dispatchers = {kind: Dispatcher(kind) for kind in (BROKERS, CONTROLLERS)}
        self.large_requests = LargeRequests(runtime)
        self.quotas = ClientQuotas(
            QuotaWindows.of_clients(config), runtime.clock.now, log_throttled
        )
        """The quotas of this broker's clients."""
        self._no_quotas = ClientQuotas(QuotaWindows.of_clients(config), runtime.clock.now)
        self.receive_view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """Shared by all connections: the bytes of a read are served before the next read."""
        self.request_bytes_max: int = config["socket.request.max.bytes"]
        self.limits = ConnectionLimits.from_config(config, runtime.open_files_max)
        self._idle_s: float = config["connections.max.idle.ms"] / 1000
        self._buffers = buffer_sizes(config)
        self._backlog: int = config["socket.listen.backlog.size"]
        self._connections: dict[Connection, None] = {}
        self._connection_ids = itertools.count(NO_CONNECTION + 1)
        self._listeners: list[_Opened] = []
        self._handshakes: dict[str, Handshakes] = {}
        """By kind of listener, so that clients do not crowd out other nodes."""
        self._sign_ins: dict[str, SignIns] = {}
        self._failure_delay_s: float = config["connection.failed.authentication.delay.ms"] / 1000
        self._served: dict[str, _Served] = {}
        self._busy: deque[Connection] = deque()
        self._busy_is_scheduled = False
        self._full: set[str] = set()
        """Listeners that have no room for another connection."""
        self._parked: dict[str, list[tuple[Socket, _Entrance]]] = {}
        """Connections that their listener let in too late, when there was no room any more."""
        self._closing_excess = False
        self._full_log = FailureLog(
            runtime, "connection limit reached; new ones wait", logging.WARNING
        )
        self._refusals = FailureLog(runtime, "refusing a connection", logging.WARNING)
        self.broken_log = FailureLog(
            runtime, "closing a connection that broke the protocol", logging.WARNING
        )
        self.unserved_log = FailureLog(
            runtime,
            "closing a connection that asked for an API that is not served",
            logging.WARNING,
        )
        self.entry = Entry(runtime, config, self._resume_listeners)
        """The rates at which listeners of clients let connections in."""
        self._idle_timer: Timer | None = None

    def quotas_of(self, kind: str) -> ClientQuotas:
        """Return the quotas for connections of a kind of listener: none on those of controllers."""
        return self.quotas if kind == BROKERS else self._no_quotas

    def configure(self, config: BrokerConfig) -> None:
        """Apply settings that may change at run time; existing connections stay."""
        self.limits.configure(config, self.runtime.open_files_max)
        self.entry.configure(config)
        if BROKERS in self._served:
            self._change_listeners(config.listeners)
            self._make_room()

    def _change_listeners(self, wanted: Sequence[ListenerConfig]) -> None:
        """Open and close client listeners until there is one of each of these names. A listener
        that stays keeps its address until the node restarts, as in Kafka."""
        names = {listener.name for listener in wanted}
        opened = {one.name for one in self._listeners if one.kind == BROKERS}
        for name in opened - names:
            log.info("closing a listener", listener=name)
            self._close(BROKERS, name)
        for listener in wanted:
            if listener.name in opened:
                continue
            try:
                address = self.listen(listener)
            except OSError as error:
                log.error("cannot open a listener", listener=str(listener), error=str(error))
            else:
                log.info("listener opened", listener=listener.name, address=address)
        self._resume_listeners()

    def listen(self, listener: ListenerConfig, kind: str = BROKERS) -> tuple[str, int]:
        """Open a listener and return the address it listens on. Connections wait until
        `start_serving`, because the port must be known before the node is ready to answer."""
        entrance = _Entrance(kind, listener.name, *self._security_of(listener.name))
        opened = self.runtime.network.listen(
            listener.host,
            listener.port,
            lambda socket: self._accepted(socket, entrance),
            backlog=self._backlog,
            buffers=self._buffers,
        )
        opened.pause()
        self._listeners.append(_Opened(kind, listener.name, opened))
        return opened.address

    def start_serving(
        self,
        kind: str,
        services: NodeServices,
        on_close: Callable[[int], object] = lambda connection_id: None,
    ) -> None:
        """Serve connections of this kind of listener; `on_close` is called with the id of each that
        is closed."""
        self._served[kind] = _Served(services, on_close)
        self._resume_listeners()
        if self._idle_s > 0 and self._idle_timer is None:
            self._schedule_idle_sweep()

    def _resume_listeners(self) -> None:
        for kind, name, listener in self._listeners:
            if kind in self._served and not (kind == BROKERS and self._is_closed(name)):
                listener.resume()

    def _is_closed(self, listener: str) -> bool:
        """True if the listener must not accept now."""
        return self.entry.is_closed(listener) or not self.limits.has_room(listener)

    def _accepted(self, socket: Socket, entrance: _Entrance) -> None:
        if entrance.kind == CONTROLLERS:
            # These are other nodes: a flood of clients must not keep them from electing a leader.
            self._begin(socket, entrance)
            return
        self.entry.pass_on(socket, entrance.name, lambda socket: self._admit(socket, entrance))
        if self._is_closed(entrance.name):
            self._pause_listeners()

    def _pause_listeners(self) -> None:
        for kind, name, listener in self._listeners:
            if kind == BROKERS and self._is_closed(name):
                listener.pause()

    def _admit(self, socket: Socket, entrance: _Entrance) -> None:
        """Serve a client, unless there are too many."""
        name = entrance.name
        if not self.limits.has_room(name):
            self._parked.setdefault(name, []).append((socket, entrance))
            return
        refusal = self.limits.admit(name, socket.peer[0])
        if refusal is not None:
            self._refusals.add(refusal, peer=socket.peer)
            socket.close()
            return
        self._begin(socket, entrance)
        if not self.limits.has_room(name):
            if name not in self._full:
                reason = f"the limit of {self.limits.limit_of(name)} is reached (max.connections)"
                self._full_log.add(reason, listener=name)
                self._full.add(name)
            self._pause_listeners()
        self._close_excess()

    def _make_room(self) -> None:
        """Let connections in where there is room, and close those that are too many."""
        for name in list(self._parked):
            while self._parked[name] and self.limits.has_room(name):
                self._admit(*self._parked[name].pop(0))
            if not self._parked[name]:
                del self._parked[name]
        self._full = {name for name in self._full if not self.limits.has_room(name)}
        self._pause_listeners()
        self._resume_listeners()
        self._close_excess()

    def _close_excess(self) -> None:
        """Close connections of other listeners if nodes need theirs beyond the limit of all, or if
        that limit was lowered: those first that were unused for longest."""
        if self.limits.excess and not self._closing_excess:
            self._closing_excess = True
            self.runtime.call_soon(self._close_some)

    def _close_some(self) -> None:
        self._closing_excess = False
        closable = [
            connection
            for connection in self._connections
            if connection.kind == BROKERS
            and not self.limits.is_protected(connection.caller.listener_name)
        ]
        count = min(self.limits.excess, EXCESS_CLOSED_AT_ONCE)
        for connection in heapq.nsmallest(count, closable, key=lambda one: one.last_active):
            connection.close("there are too many, and it was unused for longest (max.connections)")
        if closable:
            self._close_excess()

    def _begin(self, socket: Socket, entrance: _Entrance) -> None:
        kind, tls = entrance.kind, entrance.tls
        if tls is None:
            self._enter(socket, entrance, ANONYMOUS)
            return
        address = socket.peer[0]
        self._handshakes_of(kind).begin(
            socket,
            tls,
            lambda secured: self._secured(secured, tls, entrance),
            lambda: self._left(kind, entrance.name, address),
        )

    def _handshakes_of(self, kind: str) -> Handshakes:
        if kind not in self._handshakes:
            from ottla.broker.server.connections.handshakes import Handshakes

            self._handshakes[kind] = Handshakes(self.runtime)
        return self._handshakes[kind]

    def _secured(self, socket: TlsSocket, tls: ListenerTls, entrance: _Entrance) -> None:
        from ottla.network.node_tls import NoPrincipal

        if entrance.sasl is not None:  # it says who the client is, whatever its certificate says
            self._enter(socket, entrance, ANONYMOUS)
            return
        try:
            principal = tls.principal_of(socket)
        except NoPrincipal as error:
            self._refusals.add(str(error), peer=socket.peer, listener=tls.name)
            socket.close()
            self._left(entrance.kind, entrance.name, socket.peer[0])
            return
        self._enter(socket, entrance, principal)

    def _enter(self, socket: Socket, entrance: _Entrance, principal: KafkaPrincipal) -> None:
        kind = entrance.kind
        caller = Caller(
            principal,
            socket.peer,
            entrance.name,
            security_protocol=entrance.security_protocol,
            connection_id=self._next_id(),
        )
        if entrance.sasl is None:
            self._connect(socket, caller, kind)
            return
        sasl = entrance.sasl
        self._sign_ins_of(kind).begin(
            socket,
            sasl,
            caller,
            self.dispatchers[kind],
            self._served[kind].services,
            lambda socket, caller, result: self._signed_in(socket, caller, kind, sasl, result),
            lambda: self._left(kind, caller.listener_name, caller.host),
        )

    def _signed_in(
        self, socket: Socket, caller: Caller, kind: str, sasl: ListenerSasl, result: SignedIn
    ) -> None:
        session = None
        if result.lifetime_ms is not None:
            from ottla.broker.server.sign_in.session import Session

            services = self._served[kind].services
            sign_ins = self._sign_ins_of(kind)
            session = Session(self.dispatchers[kind], sign_ins, sasl, services, result)
        self._connect(socket, caller, kind, session)

    def _sign_ins_of(self, kind: str) -> SignIns:
        if kind not in self._sign_ins:
            from ottla.broker.server.sign_in.sign_ins import SignIns

            self._sign_ins[kind] = SignIns(self.runtime, self._failure_delay_s)
        return self._sign_ins[kind]

    def _next_id(self) -> int:
        return next(self._connection_ids)

    def _connect(
        self, socket: Socket, caller: Caller, kind: str, session: Session | None = None
    ) -> None:
        services = self._served[kind].services
        connection = Connection(socket, caller, self.dispatchers[kind], services, self, session)
        self._connections[connection] = None

    def connections_by_listener(self) -> dict[str, int]:
        """Return the number of connections of each open listener."""
        found = {one.name: 0 for one in self._listeners}
        for connection in self._connections:
            name = connection.caller.listener_name
            found[name] = found.get(name, 0) + 1
        return found

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        if self._connections.pop(connection, self) is self:
            return
        self._served[connection.kind].on_close(connection.caller.connection_id)
        self._left(connection.kind, connection.caller.listener_name, connection.peer[0])

    def _left(self, kind: str, listener: str, address: str) -> None:
        """Count a connection that ended."""
        if kind == CONTROLLERS:
            return
        self.limits.leave(listener, address)
        if self._full or self._parked:
            self._make_room()

    def serve_later(self, connection: Connection) -> None:
        """Serve the remaining requests of a connection later, after those of other busy
        connections. All busy connections together get one slice of each turn, so the others do not
        wait for them."""
        self._busy.append(connection)
        self._schedule_busy()

    def _schedule_busy(self) -> None:
        if self._busy and not self._busy_is_scheduled:
            self._busy_is_scheduled = True
            self.runtime.call_soon(self._serve_busy)

    def _serve_busy(self) -> None:
        self._busy_is_scheduled = False
        clock = self.runtime.clock
        end_s = clock.now() + SLICE_S
        try:
            while self._busy and clock.now() < end_s:
                self._busy.popleft().next_turn()
        finally:
            self._schedule_busy()

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
        """Close the listeners of this kind, and their connections."""
        self._close(kind)
        self._served.pop(kind, None)

    def _close(self, kind: str, name: str | None = None) -> None:
        """Close one listener, or all of a kind, with their connections."""
        for one in list(self._listeners):
            if one.kind == kind and name in (None, one.name):
                one.listener.close()
                self._listeners.remove(one)
        if kind == BROKERS:
            self.entry.close(name)
            for parked in [name] if name is not None else list(self._parked):
                for socket, _ in self._parked.pop(parked, ()):
                    socket.close()
        if kind in self._handshakes:
            self._handshakes[kind].close(name)
        if kind in self._sign_ins:
            self._sign_ins[kind].close(name)
        for connection in list(self._connections):
            if connection.kind == kind and name in (None, connection.caller.listener_name):
                connection.close("its listener is being closed")

    def close(self) -> None:
        self.stop_serving(BROKERS)
        self.stop_serving(CONTROLLERS)
        if self._idle_timer is not None:
            self._idle_timer.cancel()


def buffer_sizes(config: BrokerConfig) -> BufferSizes:
    """Return the socket buffer sizes. Sending uses Kafka's default: data in flight then stays in
    the processor's cache, and cached reads cost a third of what they cost with the buffers that
    Linux would grow. The size for receiving is left to the OS unless it was set: a produce then
    arrives in fewer pieces, at half the cost."""
    receive = "socket.receive.buffer.bytes"
    return BufferSizes(
        send=config["socket.send.buffer.bytes"],
        receive=config[receive] if receive in config.explicit else -1,
    )
