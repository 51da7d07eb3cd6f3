"""TLS handshakes of accepted connections: few at a time, in small slices, and never for long.

A handshake costs the broker most of a millisecond, and a client can begin a thousand at once. So
all of them together get one slice of each turn of the loop. A client that goes on too slowly is
closed, and so is the oldest one if there are too many: those that mean it are done by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.server.connections.failure_log import FailureLog
from ottla.runtime.pace import SLICE_S
from ottla.runtime.tls.socket import CertificateRefused, NotTls, TlsError, TlsSocket

if TYPE_CHECKING:
    from ottla.network.node_tls import ListenerTls
    from ottla.runtime.network import Socket
    from ottla.runtime.runtime import Runtime

HANDSHAKE_TIMEOUT_S: Final = 10.0
HANDSHAKES_MAX: Final = 1_000
HANDSHAKE_BYTES_MAX: Final = 96 * 1024
"""What a client may send before its handshake is complete: chains of certificates are long."""
RECEIVED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The same of all clients together. A thousand might send as much as each may."""
RECEIVED_ANYWAY_BYTES: Final = 16 * 1024
"""Clients that sent less go on nevertheless: few need more."""

# What OpenSSL says (in lower case) if the client refuses the certificate of this node.
_REFUSED_BY_CLIENT: Final = ("alert unknown ca", "alert certificate", "alert bad certificate")
_OLD: Final = ("unsupported protocol", "unknown protocol", "version too low")
_NO_CIPHER: Final = "no shared cipher"
_NO_CERTIFICATE: Final = "peer did not return a certificate"


class Handshakes:
    """The unfinished handshakes of one kind of listener."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pending: dict[Handshake, None] = {}
        self._ready: deque[Handshake] = deque()
        self._is_scheduled = False
        self.received_bytes = 0
        """What the pending ones have received."""
        self._log = FailureLog(runtime, "a TLS handshake failed")

    def begin(
        self,
        socket: Socket,
        listener: ListenerTls,
        finished: Callable[[TlsSocket], object],
        failed: Callable[[], object],
    ) -> None:
        """Make the handshake, then call one of the two; the socket is closed on a failure."""
        if len(self._pending) >= HANDSHAKES_MAX:
            oldest = next(iter(self._pending))
            oldest.fail(f"{HANDSHAKES_MAX} later clients are in their handshake, too")
        self._pending[Handshake(self, socket, listener, finished, failed)] = None

    def advance_soon(self, handshake: Handshake) -> None:
        self._ready.append(handshake)
        self._schedule()

    def is_too_much(self, received_bytes: int) -> bool:
        """True if a handshake that has received so much has to go, for the sake of memory."""
        all_bytes = self.received_bytes
        return received_bytes > HANDSHAKE_BYTES_MAX or (
            received_bytes > RECEIVED_ANYWAY_BYTES and all_bytes > RECEIVED_BYTES_MAX
        )

    def ended(self, handshake: Handshake, failure: str | None) -> None:
        self._pending.pop(handshake, None)
        self.received_bytes -= handshake.received_bytes
        if failure is not None:
            self._log.add(failure, peer=handshake.peer, listener=handshake.listener.name)

    def close(self, listener_name: str | None = None) -> None:
        """End the handshakes of a listener, or all of them."""
        for handshake in list(self._pending):
            if listener_name in (None, handshake.listener.name):
                handshake.fail("its listener is being closed")

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    def _schedule(self) -> None:
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            self._runtime.call_soon(self._advance)

    def _advance(self) -> None:
        self._is_scheduled = False
        clock = self._runtime.clock
        end_s = clock.now() + SLICE_S
        try:
            while self._ready and clock.now() < end_s:
                self._ready.popleft().advance()
        finally:
            self._schedule()


class Handshake:
    """The handshake of one client. A silent client costs only its socket: TLS begins with its
    first bytes."""

    __slots__ = (
        "_failed",
        "_finished",
        "_handshakes",
        "_raw",
        "_timer",
        "_tls",
        "listener",
        "received_bytes",
    )

    def __init__(
        self,
        handshakes: Handshakes,
        raw: Socket,
        listener: ListenerTls,
        finished: Callable[[TlsSocket], object],
        failed: Callable[[], object],
    ) -> None:
        self.listener = listener
        self._handshakes = handshakes
        self._raw: Socket | None = raw
        self._finished = finished
        self._failed = failed
        self._tls: TlsSocket | None = None
        self.received_bytes = 0
        self._timer = handshakes.runtime.call_later(HANDSHAKE_TIMEOUT_S, self._time_out)
        raw.on_readable(self._readable)

    @property
    def peer(self) -> tuple[str, int] | None:
        return None if self._raw is None else self._raw.peer

    def _readable(self) -> None:
        if self._raw is not None:
            self._raw.on_readable(None)
            self._handshakes.advance_soon(self)

    def advance(self) -> None:
        raw = self._raw
        if raw is None:
            return
        has_begun = self._tls is not None
        try:
            tls = self._tls = self._tls or self.listener.accept(raw)
            count = tls.receive()
            self.received_bytes += count
            self._handshakes.received_bytes += count
            complete = tls.advance()
        except BlockingIOError:
            complete = False
        except OSError as error:
            reason = _explained(error)
            if has_begun and isinstance(error, ConnectionError):
                reason += ": perhaps it does not trust the certificate of this node"
            self.fail(reason)
            return
        if not complete:
            if self._handshakes.is_too_much(self.received_bytes):
                self.fail(f"not complete after {self.received_bytes} bytes")
                return
            raw.on_readable(self._readable)
            return
        self._raw = None
        self._timer.cancel()
        self._handshakes.ended(self, None)
        self._finished(tls)

    def _time_out(self) -> None:
        self.fail(f"not complete within {HANDSHAKE_TIMEOUT_S:.0f} s")

    def fail(self, reason: str) -> None:
        raw = self._raw
        if raw is None:
            return
        self._handshakes.ended(self, reason)
        self._raw = None
        self._timer.cancel()
        raw.close()
        self._failed()


def _explained(error: OSError) -> str:
    if isinstance(error, NotTls):
        return "the client does not speak TLS: its security.protocol must be SSL or SASL_SSL"
    if isinstance(error, CertificateRefused):
        return f"the client's certificate is not accepted: {error} (see ssl.truststore.location)"
    text = str(error)
    if isinstance(error, TlsError):
        if _NO_CERTIFICATE in text:
            return "the client shows no certificate, and ssl.client.auth is required"
        if text in _OLD:
            return f"the client knows no version of TLS of ssl.enabled.protocols: {text}"
        if _NO_CIPHER in text:
            return f"the client knows no cipher suite of ssl.cipher.suites: {text}"
        if any(alert in text for alert in _REFUSED_BY_CLIENT):
            return f"the client does not accept the certificate of this node: {text}"
    return text
