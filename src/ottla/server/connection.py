"""One client's connection: frames in, answers out, in order and within bounds.

Bytes are received into one buffer that all connections share, and whole frames are served right
there, before the next read: a record goes from that buffer to its segment file without a copy.
Only a frame that did not arrive whole costs the connection a buffer of its own, which grows with
the bytes that really came, so a client cannot make the broker reserve what it does not send.
"""

from __future__ import annotations

import errno
import struct
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.buffers import Buffer
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError, MalformedMessage
from ottla.protocol.wire import skip_tags
from ottla.runtime.disk import FileSlice
from ottla.server.context import RequestContext
from ottla.server.pending import Pending, PendingTask

if TYPE_CHECKING:
    from ottla.runtime.network import Socket
    from ottla.server.dispatch import Dispatcher, Route
    from ottla.server.server import Server

log = get_logger("ottla.network")

_REQUEST_START: Final = struct.Struct(">hhih")  # api key, version, correlation id, client id length
_SIZE: Final = struct.Struct(">i")
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")

PARTIAL_FRAME_BYTES_START: Final = 64 * 1024
UNANSWERED_REQUESTS_MAX: Final = 64
UNSENT_BYTES_MAX: Final = 256 * 1024
"""Answers are sent when so much of them has gathered, and if they do not go out, nothing more of
this connection is served: unread answers cost this much and one answer."""
TURN_S_MAX: Final = 0.01
"""So long one connection may be served before the others have their turn."""
REQUESTS_BETWEEN_CLOCK_LOOKS: Final = 16
GATHERED_BUFFERS_MAX: Final = 64
COPIED_BYTES_MAX: Final = 16 * 1024
"""Records up to this size are read and leave with the rest of the answer in one packet: for a few
kilobytes that costs less than a `sendfile` between two sends, and wakes the client once."""
DISK_ERRORS: Final = frozenset({errno.EIO, errno.ESTALE, errno.ENODATA, errno.EUCLEAN})
"""What `sendfile` says when the file is at fault and not the client."""


class BadFrame(Exception):
    """The peer does not speak the protocol: the connection cannot go on."""


class _Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("chunks", "correlation_id", "pending", "ready", "route")

    def __init__(self, route: Route, correlation_id: int, pending: Pending | None) -> None:
        self.route = route
        self.correlation_id = correlation_id
        self.pending = pending
        self.ready = False
        self.chunks: list[Any] = []


class Connection:
    __slots__ = (
        "_backlog",
        "_closed",
        "_dispatcher",
        "_filled",
        "_held",
        "_inbox",
        "_needed",
        "_out",
        "_reading",
        "_recv_into",
        "_routes",
        "_server",
        "_slots",
        "_socket",
        "_turn_over",
        "_unsent_bytes",
        "_write_blocked",
        "last_active",
        "listener_name",
        "software",
    )

    def __init__(
        self, socket: Socket, listener_name: str, dispatcher: Dispatcher, server: Server
    ) -> None:
        self._socket = socket
        self._recv_into = socket.recv_into
        self._server = server
        self._dispatcher = dispatcher
        self._routes = dispatcher.routes
        self.listener_name = listener_name
        self.last_active = server.runtime.clock.now()
        self.software: tuple[str, str] = ("unknown", "unknown")
        """Name and version of the client library, once ApiVersions has told them."""
        self._inbox: memoryview | None = None
        self._filled = 0
        self._needed = 0
        self._backlog: bytearray | None = None
        self._held = False
        self._slots: deque[_Slot] = deque()
        self._out: deque[Any] = deque()
        self._unsent_bytes = 0
        self._write_blocked = False
        self._turn_over = False
        self._closed = False
        self._reading = False
        self._resume_reading()

    @property
    def peer(self) -> tuple[str, int]:
        return self._socket.peer

    @property
    def kind(self) -> str:
        """Whether it came in by a listener of brokers or of controllers: see `dispatch`."""
        return self._dispatcher.kind

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_waiting(self) -> bool:
        """Whether the client is owed an answer: such a connection is not idle."""
        return bool(self._slots)

    # --- bytes in -------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        inbox = self._inbox
        try:
            if inbox is None:
                count = self._recv_into(self._server.receive_view)
            else:
                count = self._recv_into(inbox[self._filled :])
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
            if inbox is None:
                self._take(self._server.receive_view, count)
            else:
                self._fill(inbox, count)
        except BadFrame as error:
            self.refuse(str(error))
            return
        if self._out and not self._write_blocked:
            self._flush()

    def _take(self, view: memoryview, end: int) -> None:
        """Serve the whole frames of `view[:end]` and keep what is left of it."""
        position = 0
        served = 0
        server = self._server
        size_max = server.request_bytes_max
        while not self._must_wait and end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if size < 8 or size > size_max:
                raise BadFrame(f"a frame of {size} bytes; between 8 and {size_max} are allowed")
            start = position + 4
            if start + size > end:
                break
            self._serve(view[start : start + size])
            position = start + size
            served += 1
            if self._unsent_bytes > UNSENT_BYTES_MAX and not self._write_blocked:
                self._flush()
            if self._closed:
                return
            if not served % REQUESTS_BETWEEN_CLOCK_LOOKS:
                self._turn_over = server.runtime.clock.now() - self.last_active > TURN_S_MAX
        if self._turn_over:
            server.runtime.call_soon(self._next_turn)
        if position == end:
            return
        if self._must_wait:
            self._backlog = bytearray(view[position:end])
            self._pause_reading()
        else:
            self._begin_partial(view[position:end])

    @property
    def _must_wait(self) -> bool:
        """Whether no further request of this connection may be served for now."""
        return self._held or self._write_blocked or self._turn_over

    def _next_turn(self) -> None:
        self._turn_over = False
        self.last_active = self._server.runtime.clock.now()
        self._go_on()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()

    def _go_on(self) -> None:
        """Serve what was put off, and read again when nothing of it is left."""
        if self._must_wait or self._closed:
            return
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            try:
                self._take(memoryview(backlog), len(backlog))
            except BadFrame as error:
                self.refuse(str(error))
                return
        if self._backlog is None:
            self._resume_reading()

    def _begin_partial(self, rest: memoryview) -> None:
        filled = len(rest)
        if filled < 4:
            needed = capacity = 4
        else:
            needed = 4 + int(_SIZE.unpack_from(rest)[0])
            capacity = min(needed, max(2 * filled, PARTIAL_FRAME_BYTES_START))
        self._inbox = memoryview(bytearray(capacity))
        self._inbox[:filled] = rest
        self._filled = filled
        self._needed = needed

    def _fill(self, inbox: memoryview, count: int) -> None:
        """`count` more bytes of a frame that did not arrive whole."""
        self._filled += count
        filled = self._filled
        if filled < len(inbox):
            return
        if filled == 4 and self._needed == 4:
            (size,) = _SIZE.unpack_from(inbox)
            if size < 8 or size > self._server.request_bytes_max:
                limit = self._server.request_bytes_max
                raise BadFrame(f"a frame of {size} bytes; between 8 and {limit} are allowed")
            self._needed = 4 + size
        if filled == self._needed:
            self._inbox = None
            self._take(inbox, filled)
            return
        larger = memoryview(
            bytearray(min(self._needed, max(2 * filled, PARTIAL_FRAME_BYTES_START)))
        )
        larger[:filled] = inbox
        self._inbox = larger

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
            server = self._server
            route = self._routes.get(api_key << 16 | version)
            if route is None:
                route = self._dispatcher.route(api_key, version)
            position = 10
            client_id = None
            if client_id_size >= 0:
                position += client_id_size
                client_id = str(frame[10:position], "utf-8")
            if route.request_is_flexible:
                # Header v2 ends with tagged fields; nobody sends any, so one zero byte is usual.
                if frame[position]:
                    position = skip_tags(frame, position)
                else:
                    position += 1
            request = route.decode(frame, position)[0]
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise BadFrame(f"a request that cannot be decoded ({error})") from None
        context = RequestContext(version, client_id, self, server.node)
        try:
            result = route.handle(context, request)
            if type(result) is route.response_class:
                self._answer(route, correlation_id, route.encode(result))
            elif result is not None:
                self._await(route, correlation_id, result)
        except Exception as error:  # a handler must never take the broker down
            self._fail(route, correlation_id, error)

    def _answer(self, route: Route, correlation_id: int, chunks: list[Any]) -> None:
        if self._slots:
            slot = _Slot(route, correlation_id, None)
            slot.chunks = chunks
            slot.ready = True
            self._slots.append(slot)
        else:
            self._enqueue(route, correlation_id, chunks)

    def _enqueue(self, route: Route, correlation_id: int, chunks: list[Any]) -> None:
        size = 4 + route.response_is_flexible
        for at, chunk in enumerate(chunks):
            size += len(chunk)
            if isinstance(chunk, FileSlice) and chunk.count <= COPIED_BYTES_MAX:
                chunks[at] = _copied(chunk)
        self._unsent_bytes += size
        out = self._out
        if route.response_is_flexible:
            out.append(_SIZE_AND_CORRELATION.pack(size, correlation_id) + b"\0")
        else:
            out.append(_SIZE_AND_CORRELATION.pack(size, correlation_id))
        out.extend(chunks)

    def _await(
        self, route: Route, correlation_id: int, result: Pending | Coroutine[Any, Any, Any]
    ) -> None:
        pending = result if isinstance(result, Pending) else PendingTask(result)
        slot = _Slot(route, correlation_id, pending)
        self._slots.append(slot)
        self._held = pending.holds_connection or len(self._slots) >= UNANSWERED_REQUESTS_MAX
        pending.when_resolved(lambda response: self._resolved(slot, response))

    def _resolved(self, slot: _Slot, response: Any) -> None:
        slot.ready = True
        slot.pending = None
        if self._closed:
            return
        if isinstance(response, Exception):
            self._fail_slot(slot, response)
            if self._closed:
                return
        elif response is not None:
            try:
                slot.chunks = slot.route.encode(response)
            except Exception as error:
                self._fail_slot(slot, error)
                return
        self._drain()

    def _drain(self) -> None:
        """Send every answer whose turn has come, then go on serving."""
        slots = self._slots
        while slots and slots[0].ready:
            slot = slots.popleft()
            if slot.chunks:
                self._enqueue(slot.route, slot.correlation_id, slot.chunks)
        if self._held and len(slots) < UNANSWERED_REQUESTS_MAX and not self._still_held():
            self._held = False
            self._go_on()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()

    def _still_held(self) -> bool:
        return any(
            slot.pending is not None and slot.pending.holds_connection for slot in self._slots
        )

    # --- failures -------------------------------------------------------------------------------

    def _fail(self, route: Route, correlation_id: int, error: Exception) -> None:
        response = self._error_response(route, error)
        if response is None:
            self.close(f"{route.name} failed")
        else:
            self._answer(route, correlation_id, route.encode(response))

    def _fail_slot(self, slot: _Slot, error: Exception) -> None:
        response = self._error_response(slot.route, error)
        if response is None:
            self.close(f"{slot.route.name} failed")
        else:
            slot.chunks = slot.route.encode(response)

    def _error_response(self, route: Route, error: Exception) -> Any:
        """The answer that carries the error, or None where the API has no room for one."""
        if not isinstance(error, KafkaError):
            log.error(
                "a request failed inside the broker", api=route.name, peer=self.peer, exc_info=error
            )
        return route.error_response(error)

    def refuse(self, reason: str) -> None:
        log.warning("closing a connection that broke the protocol", peer=self.peer, reason=reason)
        self.close(reason)

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        log.debug("connection closed", peer=self.peer, reason=reason)
        for slot in self._slots:
            if slot.pending is not None:
                slot.pending.abandon()
        self._slots.clear()
        self._out.clear()
        self._inbox = self._backlog = None
        self._socket.close()
        self._server.forget(self)

    # --- bytes out ------------------------------------------------------------------------------

    def _flush(self) -> None:
        out = self._out
        socket = self._socket
        self._unsent_bytes = 0
        try:
            while out:
                if isinstance(out[0], FileSlice):
                    done = self._send_file(out[0])
                else:
                    done = self._send_buffers(self._gather())
                if not done:
                    raise BlockingIOError
        except BlockingIOError:
            if not self._write_blocked:
                # A client that does not read is not read from: it costs what is queued now.
                self._write_blocked = True
                self._pause_reading()
                socket.on_writable(self._on_writable)
            return
        except OSError as error:
            self.close(f"write failed: {error}")
            return
        if self._write_blocked:
            self._write_blocked = False
            socket.on_writable(None)
            self._go_on()

    def _gather(self) -> list[Buffer]:
        buffers: list[Buffer] = []
        for chunk in self._out:
            if isinstance(chunk, FileSlice) or len(buffers) == GATHERED_BUFFERS_MAX:
                break
            buffers.append(chunk)
        return buffers

    def _send_buffers(self, buffers: list[Buffer]) -> bool:
        """True if all of them went out; what did not stays queued."""
        out = self._out
        sent = self._socket.send(buffers, len(buffers) < len(out))
        for buffer in buffers:
            size = len(buffer)
            if sent < size:
                out[0] = memoryview(buffer)[sent:]
                return False
            sent -= size
            out.popleft()
        return True

    def _send_file(self, part: FileSlice) -> bool:
        try:
            sent = self._socket.send_file(part)
        except OSError as error:
            if error.errno in DISK_ERRORS:
                self._server.node.file_failed(part.file.path, error)
            raise
        if sent == part.count:
            self._out.popleft()
            return True
        if sent == 0:
            raise OSError(f"{part.file.path} ended before the bytes promised to the client")
        part.offset += sent
        part.count -= sent
        return False

    def _on_writable(self) -> None:
        self.last_active = self._server.runtime.clock.now()
        self._flush()
        if self._out and not self._write_blocked and not self._closed:
            self._flush()  # what was served once the way was free


def _copied(part: FileSlice) -> FileSlice | bytes:
    """The bytes themselves; or, if they cannot be read, the part as it is: `sendfile` fails on it
    where such failures are dealt with."""
    try:
        data = part.read()
    except OSError:
        return part
    return data if len(data) == part.count else part
