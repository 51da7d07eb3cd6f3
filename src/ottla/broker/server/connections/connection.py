"""A client's connection: frames in, answers out, in order and within bounds.

Bytes are received into one buffer that all connections share, and whole frames are served right
there, before the next read: a record goes from that buffer to its segment file without a copy. Only
a frame that did not arrive whole costs the connection a buffer of its own. That buffer grows with
the bytes that arrive, so a client cannot make the broker reserve memory for bytes it does not send.
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.connections.answers import OwedAnswers, Slot
from ottla.broker.server.connections.frames import (
    FRAME_SIZE,
    REQUEST_BYTES_MIN,
    BadFrame,
    PartialFrame,
    bad_size,
)
from ottla.broker.server.connections.meter import Mute, exempt_meter, meter_of
from ottla.broker.server.connections.outgoing import Outgoing
from ottla.broker.server.context import RequestContext
from ottla.broker.server.contract import CannotTell
from ottla.broker.server.dispatch import NotServed
from ottla.broker.server.large_requests import Encoded, Undecodable
from ottla.broker.server.pending import ClientTask, Pending, PendingTask
from ottla.broker.server.pieces import AT_ONCE_BYTES_MAX, AT_ONCE_ELEMENTS_MAX, weight_of
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError, MalformedMessage, TooManyElements
from ottla.protocol.wire import skip_tags

if TYPE_CHECKING:
    from ottla.broker.server.caller import Caller
    from ottla.broker.server.connections.meter import Meter
    from ottla.broker.server.context import NodeContext
    from ottla.broker.server.dispatch import Dispatcher, Route
    from ottla.broker.server.figures.requests import ApiFigures, Watch
    from ottla.broker.server.server import Server
    from ottla.broker.server.services import NodeServices
    from ottla.broker.server.sign_in.session import Session
    from ottla.runtime.network import Socket

log = get_logger("ottla.network")
server_log = get_logger("ottla.server")

_REQUEST_START: Final = struct.Struct(">hhih")  # api key, version, correlation id, client id length

UNSENT_BYTES_MAX: Final = 256 * 1024
"""Answers are sent once they exceed this size. If they cannot be sent, no further request of the
connection is served, so unread answers cost at most this much and one answer."""
TURN_S_MAX: Final = 0.002
"""How long one connection is served before the others have their turn."""
REQUESTS_BETWEEN_CLOCK_LOOKS: Final = 16


class Connection:
    __slots__ = (
        "_backlog",
        "_began_s",
        "_closed",
        "_dispatcher",
        "_figures",
        "_out",
        "_outgoing",
        "_owed",
        "_partial",
        "_quotas",
        "_reading",
        "_recv_into",
        "_routes",
        "_server",
        "_services",
        "_session",
        "_slots",
        "_socket",
        "_turn_over",
        "_waits_for_answer",
        "_write_blocked",
        "caller",
        "last_active",
    )

    def __init__(
        self,
        socket: Socket,
        caller: Caller,
        dispatcher: Dispatcher,
        services: NodeServices,
        server: Server,
        session: Session | None = None,
    ) -> None:
        self._socket = socket
        self._recv_into = socket.recv_into
        self._server = server
        self._session = session
        self._dispatcher: Dispatcher | Session = dispatcher if session is None else session
        self._services = services
        self._routes = self._dispatcher.routes
        self._quotas = server.quotas_of(dispatcher.kind)
        self.caller = caller
        """The sender of the requests, as far as it is known."""
        self.last_active = server.runtime.clock.now()
        self._partial: PartialFrame | None = None
        self._backlog: bytearray | None = None
        """Requests that are put off."""
        self._waits_for_answer = False
        """True if later requests have to wait for the answer to an earlier one."""
        self._owed = OwedAnswers()
        self._slots = self._owed.slots
        self._outgoing = Outgoing(socket, server.on_file_failed)
        self._out = self._outgoing.chunks
        self._write_blocked = False
        self._turn_over = False
        self._closed = False
        self._reading = False
        self._figures: ApiFigures | None = None
        """Those of the request that is being served; None if requests are not measured."""
        self._began_s = 0.0
        if session is not None:
            session.begin(self)
        self._resume_reading()

    @property
    def peer(self) -> tuple[str, int]:
        return self._socket.peer

    @property
    def kind(self) -> str:
        """The kind of the listener, `BROKERS` or `CONTROLLERS`: see `contract`."""
        return self._dispatcher.kind

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_waiting(self) -> bool:
        """True if the client is owed an answer: such a connection is not idle."""
        return bool(self._slots)

    # --- bytes in -------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        partial = self._partial
        try:
            if partial is None:
                count = self._recv_into(self._server.receive_view)
            else:
                count = self._recv_into(partial.room)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"read failed: {error}")
            return
        if not count:
            self.close("the client closed it")
            return
        self.last_active = self._server.runtime.clock.now()
        try:
            if partial is None:
                self._take(self._server.receive_view, count)
            elif (whole := partial.fill(count)) is not None:
                self._partial = None
                self._take(whole, len(whole))
        except (BadFrame, NotServed) as error:
            self.refuse(error)
            return
        if self._out and not self._write_blocked:
            self._flush()

    def _take(self, view: memoryview, end: int) -> None:
        """Serve the whole frames of `view[:end]` and keep the rest."""
        position = 0
        served = 0
        server, outgoing = self._server, self._outgoing
        size_max = server.request_bytes_max
        # `_must_wait`, in place: this is done for every request.
        while end - position >= 4 and not (
            self._waits_for_answer or self._write_blocked or self._turn_over
        ):
            (size,) = FRAME_SIZE.unpack_from(view, position)
            if size < REQUEST_BYTES_MIN or size > size_max:
                raise bad_size(size, size_max)
            start = position + 4
            if start + size > end:
                break
            self._serve(view[start : start + size])
            position = start + size
            served += 1
            if outgoing.unsent_bytes > UNSENT_BYTES_MAX and not self._write_blocked:
                self._flush()
            if self._closed:
                return
            if not served % REQUESTS_BETWEEN_CLOCK_LOOKS:
                self._turn_over = server.runtime.clock.now() - self.last_active > TURN_S_MAX
        if self._turn_over:
            server.serve_later(self)
        if position == end:
            return
        if self._must_wait:
            self._backlog = bytearray(view[position:end])
            self._pause_reading()
        else:
            self._partial = PartialFrame(view[position:end], size_max)

    @property
    def _must_wait(self) -> bool:
        """True if no further request of this connection may be served for now."""
        return self._waits_for_answer or self._write_blocked or self._turn_over

    def next_turn(self) -> None:
        """Serve the requests that `Server.serve_later` put off."""
        self._turn_over = False
        self.last_active = self._server.runtime.clock.now()
        self._go_on()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()

    def _go_on(self) -> None:
        """Serve the requests that were put off, and read again when none of them is left."""
        if self._must_wait or self._closed:
            return
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            try:
                self._take(memoryview(backlog), len(backlog))
            except (BadFrame, NotServed) as error:
                self.refuse(error)
                return
        if self._backlog is None:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._socket.on_readable(None)

    def _resume_reading(self) -> None:
        if not (self._reading or self._closed or self._write_blocked):
            self._reading = True
            self._socket.on_readable(self._on_readable)

    # --- one request ----------------------------------------------------------------------------

    def _serve(self, frame: memoryview) -> None:
        try:
            api_key, version, correlation_id, client_id_size = _REQUEST_START.unpack_from(frame)
            route = self._routes.get(api_key << 16 | version)
            if route is None:
                route = self._dispatcher.route(api_key, version)
            position = 10
            client_id = None
            if client_id_size >= 0:
                position += client_id_size
                client_id = str(frame[10:position], "utf-8")
            if route.request_is_flexible:
                # Header v2 ends with tagged fields. Clients send none, so one zero byte is usual.
                if frame[position]:
                    position = skip_tags(frame, position)
                else:
                    position += 1
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise BadFrame(f"a request that cannot be decoded ({error})") from None
        if route.figures is not None:
            self._began_s = self._server.runtime.clock.now()
            self._figures = route.figures
        context = RequestContext(
            api_key, version, client_id, self.caller, self._services, correlation_id
        )
        meter = None
        quotas = self._quotas
        if quotas.is_active:
            meter = meter_of(quotas, context, len(frame))
        if len(frame) > AT_ONCE_BYTES_MAX:
            self._serve_large(route, correlation_id, context, frame, position, meter)
            return
        try:
            request = route.decode(frame, position, AT_ONCE_ELEMENTS_MAX)[0]
        except TooManyElements as error:
            if route.elements_max <= AT_ONCE_ELEMENTS_MAX:
                raise BadFrame(f"a request that names too much ({error})") from None
            self._serve_large(route, correlation_id, context, frame, position, meter)
            return
        except MalformedMessage as error:
            raise BadFrame(f"a request that cannot be decoded ({error})") from None
        if meter is not None:
            if route.is_exempt(context, request):
                meter.exempt()
        elif quotas.counts_exempt and route.is_exempt(context, request):
            meter = exempt_meter(quotas)
        if self._figures is not None:
            if self._figures.of_nodes is not None and route.is_exempt(context, request):
                self._figures = self._figures.of_nodes
            self._figures.begun(version, self._began_s - self.last_active)
        try:
            if route.weighed_above is not None and weight_of(request) - 1 > route.weighed_above:
                work = self._server.large_requests.serve(route, context, request, meter)
                self._await(route, correlation_id, ClientTask(work), meter)
                return
            result = route.handle(context, request)
            if type(result) is not route.response_class:
                if result is not None:
                    if meter is not None:
                        meter.interrupt()
                    if route.long_answer is not None and not isinstance(result, Pending):
                        result = self._server.large_requests.answer(route, result, meter)
                    self._await(route, correlation_id, result, meter)
                elif meter is not None:
                    meter.settle_at_once(None)
                    self._mute(route, meter)
                return
            if meter is not None:
                meter.settle_at_once(result)
            try:
                chunks = route.encode(result, AT_ONCE_ELEMENTS_MAX)
            except TooManyElements:
                work = self._server.large_requests.encode(route, result)
                self._await(route, correlation_id, ClientTask(work), meter)
                return
            if self._figures is not None:
                self._figures.answered(result)
            self._answer(route, correlation_id, chunks)
            if meter is not None:
                self._mute(route, meter)
        except Exception as error:  # a handler must never take the broker down
            self._fail(route, correlation_id, error, meter)

    def _serve_large(
        self,
        route: Route,
        correlation_id: int,
        context: NodeContext,
        frame: memoryview,
        position: int,
        meter: Meter | None,
    ) -> None:
        server = self._server
        if frame.obj is server.receive_view.obj:
            # the shared buffer is reused before this request is done
            frame = memoryview(bytearray(frame))
        if self._figures is not None:
            self._figures.begun(context.api_version, self._began_s - self.last_active)
        work = server.large_requests.serve_frame(route, context, frame, position, meter)
        self._await(route, correlation_id, ClientTask(work), meter)

    def _answer(self, route: Route, correlation_id: int, chunks: list[Any]) -> None:
        if self._slots:
            slot = Slot(route, correlation_id, None)
            if self._figures is not None:
                slot.watch = self._watch(self._figures)
            self._owed.keep(slot, chunks)
            slot.ready = True
            self._slots.append(slot)
            self._waits_for_answer = self._waits_for_answer or self._owed.is_full
        else:
            self._outgoing.add(correlation_id, chunks, route.response_is_flexible)
            if self._figures is not None:
                now_s = self._server.runtime.clock.now()
                self._figures.sent_at_once(self.last_active, self._began_s, now_s)

    def _watch(self, figures: ApiFigures) -> Watch:
        from ottla.broker.server.figures.requests import Watch

        return Watch(figures, self._server.runtime.clock.now, self.last_active, self._began_s)

    def _await(
        self,
        route: Route,
        correlation_id: int,
        result: Pending | Coroutine[Any, Any, Any],
        meter: Meter | None,
    ) -> None:
        pending = result if isinstance(result, Pending) else PendingTask(result)
        slot = Slot(route, correlation_id, pending, meter)
        if self._figures is not None:
            slot.watch = self._watch(self._figures)
        self._slots.append(slot)
        self._waits_for_answer = (
            self._waits_for_answer or pending.holds_connection or self._owed.is_full
        )
        pending.when_resolved(lambda response: self._resolved(slot, response))

    def _resolved(self, slot: Slot, response: Any) -> None:
        slot.ready = True
        slot.pending = None
        if self._closed:
            return
        meter = slot.meter
        if meter is not None and not isinstance(response, Exception):
            meter.settle(response)
        if slot.watch is not None and not isinstance(response, Exception):
            slot.watch.resolved(response)
        if isinstance(response, Exception):
            self._fail_slot(slot, response)
            if self._closed:
                return
        elif type(response) is Encoded:
            self._owed.keep(slot, response.chunks)
        elif response is not None:
            try:
                self._owed.keep(slot, slot.route.encode(response, AT_ONCE_ELEMENTS_MAX))
            except TooManyElements:
                self._encode_later(slot, response)
                return
            except Exception as error:
                self._fail_slot(slot, error)
                if self._closed:
                    return
        if meter is not None:
            self._mute(slot.route, meter)
        self._drain()

    def _mute(self, route: Route, meter: Meter) -> None:
        """Serve no further request of this connection for the throttle time of this one."""
        if meter.throttle_ms <= 0 or self._closed:
            return
        mute = Mute(self._server.runtime, meter.throttle_ms)
        slot = Slot(route, 0, mute)
        self._slots.append(slot)
        self._waits_for_answer = True
        mute.when_resolved(lambda _: self._unmute(slot))

    def _unmute(self, slot: Slot) -> None:
        self.last_active = self._server.runtime.clock.now()  # the client could not do anything
        self._resolved(slot, None)

    def _encode_later(self, slot: Slot, response: Any) -> None:
        slot.ready = False
        slot.pending = ClientTask(self._server.large_requests.encode(slot.route, response))
        self._waits_for_answer = True
        slot.pending.when_resolved(lambda encoded: self._resolved(slot, encoded))

    def _drain(self) -> None:
        """Send every answer whose turn has come, then serve further requests."""
        owed = self._owed
        while (slot := owed.next_ready()) is not None:
            if slot.watch is not None:
                slot.watch.sent()
            if slot.chunks:
                flexible = slot.route.response_is_flexible
                self._outgoing.add(slot.correlation_id, slot.chunks, flexible)
        if self._waits_for_answer and not owed.is_full and not owed.holds_connection:
            self._waits_for_answer = False
            self._go_on()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()

    # --- failures -------------------------------------------------------------------------------

    def _fail(
        self, route: Route, correlation_id: int, error: Exception, meter: Meter | None
    ) -> None:
        if isinstance(error, CannotTell):
            self.close(str(error))
            return
        response = self._error_response(route, error)
        if response is None:
            self.close(f"{route.name} failed")
        else:
            if meter is not None:
                meter.settle_at_once(response)
            if self._figures is not None:
                self._figures.answered(response)
            self._answer(route, correlation_id, route.encode(response))
            if meter is not None:
                self._mute(route, meter)

    def _fail_slot(self, slot: Slot, error: Exception) -> None:
        if isinstance(error, (Undecodable, TooManyElements)):
            self.refuse(BadFrame(f"a request that cannot be served ({error})"))
            return
        if isinstance(error, CannotTell):
            self.close(str(error))
            return
        response = self._error_response(slot.route, error)
        if response is None:
            self.close(f"{slot.route.name} failed")
        else:
            if slot.meter is not None:
                slot.meter.settle(response)
            if slot.watch is not None:
                slot.watch.resolved(response)
            self._owed.keep(slot, slot.route.encode(response))

    def _error_response(self, route: Route, error: Exception) -> Any:
        """Return a response that carries the error, or None if the API has no field for one."""
        if not isinstance(error, KafkaError):
            server_log.error(
                "a request failed inside the broker", api=route.name, peer=self.peer, exc_info=error
            )
        return route.error_response(error)

    def refuse(self, error: BadFrame | NotServed) -> None:
        reason, server = str(error), self._server
        # An API that is not served is not the client's fault: Kafka may serve it. Like Kafka, give
        # no answer.
        logs = server.unserved_log if isinstance(error, NotServed) else server.broken_log
        logs.add(reason, peer=self.peer)
        self.close(reason)

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        log.debug("connection closed", peer=self.peer, reason=reason)
        self._owed.abandon()
        self._out.clear()
        self._partial = self._backlog = None
        if self._session is not None:
            self._session.close()
        self._socket.close()
        self._server.forget(self)

    # --- bytes out ------------------------------------------------------------------------------

    def _flush(self) -> None:
        try:
            if not self._outgoing.send():
                if not self._write_blocked:
                    # Do not read from a client that does not read: it then costs only what is
                    # queued now.
                    self._write_blocked = True
                    self._pause_reading()
                    self._socket.on_writable(self._on_writable)
                return
        except OSError as error:
            self.close(f"write failed: {error}")
            return
        if self._write_blocked:
            self._write_blocked = False
            self._socket.on_writable(None)
            self._go_on()

    def _on_writable(self) -> None:
        self.last_active = self._server.runtime.clock.now()
        self._flush()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()  # answers to requests served since the socket became writable
