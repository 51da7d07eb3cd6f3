"""Connections whose clients sign in: they become connections with a principal, or are closed.

Until then a connection may send requests of the sign-in only, one at a time and each of at most
`sasl.server.max.receive.size`, and has to be done within half a minute. A client that fails is told
so after `connection.failed.authentication.delay.ms`; only its own connection waits.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker.server.caller import Caller
from ottla.broker.server.connections.failure_log import FailureLog
from ottla.broker.server.connections.outgoing import Outgoing
from ottla.broker.server.context import RequestContext
from ottla.broker.server.dispatch import NotServed
from ottla.broker.server.pieces import AT_ONCE_ELEMENTS_MAX
from ottla.broker.server.sign_in.conversation import (
    Conversation,
    OutOfOrder,
    SignedIn,
    SignInFailed,
)
from ottla.broker.server.sign_in.mechanisms import PREPARED_BYTES_MAX, InvalidCredentials
from ottla.broker.server.sign_in.plain import PlainServer, PlainUsers
from ottla.broker.server.sign_in.scram import NONCE_BYTES, ScramServer, ScramUsers
from ottla.broker.server.sign_in.small_frame import BadSize, SmallFrame
from ottla.broker.server.sign_in.token_credentials import TokenCredentials
from ottla.config.security.sasl import GSSAPI, OAUTHBEARER, PLAIN
from ottla.config.security.tokens import token_settings
from ottla.logs import get_logger, shortened
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage, TooManyElements
from ottla.protocol.headers import read_request_header
from ottla.security.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from ottla.broker.server.dispatch import Dispatcher, Route
    from ottla.broker.server.services import NodeServices
    from ottla.broker.server.sign_in.mechanisms import ServerMechanism
    from ottla.broker.server.sign_in.oauth import TokenCheck
    from ottla.broker.server.sign_in.token_credentials import TokenSignIn
    from ottla.config.security.kerberos import KerberosSettings
    from ottla.config.security.oauth import OauthSettings
    from ottla.config.security.sasl import SaslSettings
    from ottla.protocol.headers import RequestHeader
    from ottla.runtime.kerberos import Acceptor
    from ottla.runtime.network import Socket
    from ottla.runtime.runtime import Runtime
    from ottla.security.kerberos_rules import KerberosRules
    from ottla.security.scram import ScramHash

log = get_logger("ottla.network")

SIGN_IN_TIMEOUT_S: Final = 30.0
SIGN_INS_MAX: Final = 1_000
BUFFERED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of frames that have not arrived whole, all together. A thousand clients might send half a
megabyte each."""
BUFFERED_ANYWAY_BYTES: Final = 16 * 1024
"""Smaller frames are received nevertheless: those of clients that mean it."""
FRAMES_PER_WAKEUP_MAX: Final = 4
USER_SHOWN_MAX: Final = 100
_OF_SIGN_IN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SECRET_BYTES: Final = 32

Finished: TypeAlias = "Callable[[Socket, Caller, SignedIn], object]"


class ListenerSasl:
    """How clients of one listener sign in."""

    def __init__(self, name: str, settings: SaslSettings, runtime: Runtime) -> None:
        self.name = name
        self.settings = settings
        self.plain_users = PlainUsers(settings.plain_users)
        self.kerberos: tuple[Acceptor, KerberosRules] | None = None
        if settings.kerberos is not None:
            self.kerberos = (_acceptor(settings.kerberos), settings.kerberos.rules)
        self.tokens: TokenCheck | None = None
        if settings.oauth is not None:
            self.tokens = _token_check(runtime, name, settings.oauth)


def _acceptor(settings: KerberosSettings) -> Acceptor:
    """Raises `OSError` if nobody could sign in."""
    from ottla.runtime.kerberos import Acceptor, KerberosError

    try:
        return Acceptor(settings.principal, settings.keytab)
    except KerberosError as error:
        raise OSError(f"nobody could sign in by GSSAPI: {error}") from None


def _token_check(runtime: Runtime, listener: str, settings: OauthSettings) -> TokenCheck:
    from ottla.broker.server.sign_in.oauth import TokenCheck

    if settings.keys is None:
        log.warning(
            "ANYBODY may sign in as anybody here: the listener accepts tokens without a signature; "
            "set sasl.oauthbearer.jwks.endpoint.url",
            listener=listener,
        )
        return TokenCheck(settings, None)
    from ottla.broker.server.sign_in.jwks import Jwks

    keys = Jwks(runtime, settings.keys)
    keys.start()
    return TokenCheck(settings, keys)


class SignIns:
    """The unfinished sign-ins of one kind of listener."""

    def __init__(self, runtime: Runtime, failure_delay_s: float) -> None:
        self.runtime = runtime
        self.failure_delay_s = failure_delay_s
        self._pending: dict[SignIn, None] = {}
        self.buffered_bytes = 0
        self._scram_users = ScramUsers(runtime.random.randbytes(_SECRET_BYTES))
        self._tokens = TokenCredentials()
        self._log = FailureLog(runtime, "a client could not sign in")

    def begin(
        self,
        socket: Socket,
        listener: ListenerSasl,
        caller: Caller,
        dispatcher: Dispatcher,
        services: NodeServices,
        finished: Finished,
        failed: Callable[[], object],
    ) -> None:
        """Let the client sign in, then call one of the two. The socket is closed on a failure."""
        if len(self._pending) >= SIGN_INS_MAX:
            oldest = next(iter(self._pending))
            oldest.give_up(f"{SIGN_INS_MAX} later clients are signing in, too")
        sign_in = SignIn(self, socket, listener, caller, dispatcher, services, finished, failed)
        self._pending[sign_in] = None

    def mechanism(
        self, name: str, listener: ListenerSasl, services: NodeServices
    ) -> ServerMechanism:
        """Begin an exchange."""
        if name == PLAIN:
            return PlainServer(listener.plain_users)
        if name == OAUTHBEARER and listener.tokens is not None:
            from ottla.broker.server.sign_in.oauth import OauthServer

            return OauthServer(listener.tokens, self.runtime.clock.wall_ms)
        if name == GSSAPI and listener.kerberos is not None:
            from ottla.broker.server.sign_in.gssapi import GssapiServer

            return GssapiServer(*listener.kerberos)
        nonce = b64encode(self.runtime.random.randbytes(NONCE_BYTES)).decode()
        credentials = services.metadata.image.scram_credentials
        return ScramServer(
            SCRAM_MECHANISMS[name],
            self._scram_users,
            credentials,
            nonce,
            lambda token_id, scram: self._find_token(services, token_id, scram),
        )

    def _find_token(self, services: NodeServices, token_id: str, scram: ScramHash) -> TokenSignIn:
        settings = token_settings(services.config)
        if settings is None:
            raise InvalidCredentials("delegation tokens are switched off")
        return self._tokens.find(
            services.metadata.image.delegation_tokens,
            settings.secret_key,
            token_id,
            scram,
            self.runtime.clock.wall_ms(),
        )

    def is_too_much(self, frame_bytes: int) -> bool:
        """True if a frame of this size has to go, for the sake of memory."""
        return frame_bytes > BUFFERED_ANYWAY_BYTES and self.buffered_bytes > BUFFERED_BYTES_MAX

    def ended(self, sign_in: SignIn) -> None:
        self._pending.pop(sign_in, None)

    def log_failure(
        self, conversation: Conversation, caller: Caller, reason: str, *, again: bool = False
    ) -> None:
        fields: dict[str, Any] = {"peer": (caller.host, caller.port)}
        fields["listener"] = caller.listener_name
        if conversation.user:
            fields["user"] = conversation.user[:USER_SHOWN_MAX]
        if conversation.mechanism:
            fields["mechanism"] = conversation.mechanism
        if again:
            fields["signed_in_as"] = shortened(str(caller.principal))
        self._log.add(reason, **fields)

    def close(self, listener_name: str | None = None) -> None:
        """End the sign-ins of a listener, or all of them."""
        for sign_in in list(self._pending):
            if listener_name in (None, sign_in.listener.name):
                sign_in.give_up("its listener is being closed")


class SignIn:
    """The sign-in of one client. Its frames are read one by one, so that what follows the last of
    them stays in the socket for the connection that takes over."""

    __slots__ = (
        "_caller",
        "_conversation",
        "_dispatcher",
        "_failed",
        "_finished",
        "_frame",
        "_is_ending",
        "_is_preparing",
        "_outgoing",
        "_services",
        "_sign_ins",
        "_socket",
        "_timer",
        "listener",
    )

    def __init__(
        self,
        sign_ins: SignIns,
        socket: Socket,
        listener: ListenerSasl,
        caller: Caller,
        dispatcher: Dispatcher,
        services: NodeServices,
        finished: Finished,
        failed: Callable[[], object],
    ) -> None:
        self.listener = listener
        self._sign_ins = sign_ins
        self._socket: Socket | None = socket
        self._caller = caller
        self._dispatcher = dispatcher
        self._services = services
        self._finished = finished
        self._failed = failed
        self._conversation = Conversation(
            listener.settings.mechanisms,
            lambda name: sign_ins.mechanism(name, listener, services),
            listener.settings.reauth_ms,
        )
        self._frame = SmallFrame(listener.settings.receive_bytes_max)
        self._outgoing = Outgoing(socket, lambda path, error: None)
        self._is_ending = False
        self._is_preparing = False
        self._timer = sign_ins.runtime.call_later(SIGN_IN_TIMEOUT_S, self._time_out)
        socket.on_readable(self._readable)

    # --- bytes in -------------------------------------------------------------------------------

    def _readable(self) -> None:
        for _ in range(FRAMES_PER_WAKEUP_MAX):
            if self._socket is None or self._is_ending or self._outgoing.chunks:
                return
            if self._is_preparing:
                return
            try:
                frame = self._receive(self._socket)
            except BlockingIOError:
                return
            except BadSize as error:
                reason = f"Failing SASL authentication due to invalid receive size ({error})"
                if error.is_tls:
                    reason = "a TLS handshake on a listener without TLS"
                    reason += f": its security.protocol must be {self._caller.security_protocol}"
                self._fail(SignInFailed(reason))
                return
            except OSError as error:
                self.give_up(f"read failed: {error}")
                return
            if frame is None:
                self.give_up("the client closed the connection")
                return
            prepare = self._conversation.prepare
            token = self._token_in(frame) if prepare is not None else None
            if prepare is None or token is None or len(token) > PREPARED_BYTES_MAX:
                self._take(frame)
            else:
                self._is_preparing = True
                self._socket.on_readable(None)
                self._sign_ins.runtime.spawn(self._prepare(prepare, token, frame), name="sign in")

    async def _prepare(self, prepare: Callable[[bytes], None], token: bytes, frame: bytes) -> None:
        await self._sign_ins.runtime.in_thread(prepare, token)
        self._is_preparing = False
        if self._socket is not None:
            self._take(frame)

    def _token_in(self, frame: bytes) -> bytes | None:
        """Return the token that a frame has; None if it has none, which ends the sign-in."""
        if self._conversation.takes_raw_token:
            return frame
        try:
            header, position = read_request_header(frame)
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                return None
            route = self._dispatcher.find(header.api_key, header.api_version)
            request = self._decoded(route, frame, position)
        except (MalformedMessage, NotServed, SignInFailed):
            return None
        found: bytes = request.auth_bytes
        return found

    def _receive(self, socket: Socket) -> bytes | None:
        """Return the next frame; None if the client has ended the connection."""
        while True:
            count = socket.recv_into(self._frame.room)
            if not count:
                return None
            before = self._frame.buffered
            whole = self._frame.fill(count)
            self._sign_ins.buffered_bytes += self._frame.buffered - before
            if whole is not None:
                return whole
            if self._sign_ins.is_too_much(self._frame.buffered):
                raise ConnectionAbortedError("others that are signing in send too much, too")

    def _take(self, frame: bytes) -> None:
        try:
            if self._conversation.takes_raw_token:
                self._send_raw(self._conversation.raw_token(frame, self._wall_ms()))
            else:
                self._serve(frame)
        except SignInFailed as error:
            self._fail(error)
        else:
            self._flush()

    def _serve(self, frame: bytes) -> None:
        conversation = self._conversation
        try:
            header, position = read_request_header(frame)
            route = self._dispatcher.find(header.api_key, header.api_version)
        except (MalformedMessage, NotServed) as error:
            raise conversation.unreadable(str(error)) from None
        key = ApiKey(header.api_key)
        try:
            conversation.expect(key)
        except OutOfOrder as error:
            if error.error is not None:
                request = self._decoded(route, frame, position)
                refused = route.refuse(request, error.error) if route.refuse else None
                error.response = refused or route.error_response(error.error)
            self._keep_answer(error, route, header)
            raise
        request = self._decoded(route, frame, position)
        try:
            response = self._response(key, header, route, request)
        except SignInFailed as error:
            self._keep_answer(error, route, header)
            raise
        self._add(route, header, response)

    def _wall_ms(self) -> int:
        return self._sign_ins.runtime.clock.wall_ms()

    def _decoded(self, route: Route, frame: bytes, position: int) -> Any:
        try:
            return route.decode(memoryview(frame), position, AT_ONCE_ELEMENTS_MAX)[0]
        except (MalformedMessage, TooManyElements) as error:
            raise self._conversation.unreadable(str(error)) from None

    def _response(self, key: ApiKey, header: RequestHeader, route: Route, request: Any) -> Any:
        conversation = self._conversation
        if key is ApiKey.SASL_HANDSHAKE:
            return conversation.handshake(request, header.api_version)
        if key is ApiKey.SASL_AUTHENTICATE:
            return conversation.authenticate(request, self._wall_ms())
        context = RequestContext(
            header.api_key, header.api_version, header.client_id, self._caller, self._services
        )
        response = route.handle(context, request)
        if not response.error_code:
            conversation.versions_told()
        return response

    # --- bytes out ------------------------------------------------------------------------------

    def _add(self, route: Route, header: RequestHeader, response: Any) -> None:
        chunks = route.encode(response)
        self._outgoing.add(header.correlation_id, chunks, route.response_is_flexible)

    def _keep_answer(self, error: SignInFailed, route: Route, header: RequestHeader) -> None:
        """Put the answer to a failure where `_tell_failure` finds it."""
        if error.response is not None:
            self._add(route, header, error.response)

    def _send_raw(self, token: bytes) -> None:
        self._outgoing.chunks.append(len(token).to_bytes(4, "big") + token)

    def _flush(self) -> None:
        socket = self._socket
        if socket is None:
            return
        try:
            if not self._outgoing.send():
                socket.on_readable(None)
                socket.on_writable(self._flush)
                return
        except OSError as error:
            self.give_up(f"write failed: {error}")
            return
        socket.on_writable(None)
        if self._is_ending:
            self._close()
        elif (result := self._conversation.result) is not None:
            self._finish(socket, result)
        else:
            socket.on_readable(self._readable)

    # --- the end --------------------------------------------------------------------------------

    def _finish(self, socket: Socket, result: SignedIn) -> None:
        self._end()
        socket.on_readable(None)
        self._finished(socket, self._caller.as_principal(result.principal), result)

    def _fail(self, error: SignInFailed) -> None:
        """End a sign-in that the client got wrong."""
        reason = str(error)
        if isinstance(error, OutOfOrder) and error.at_once and error.key not in _OF_SIGN_IN:
            reason += f" Its security.protocol must be {self._caller.security_protocol}."
        self._log(reason)
        if error.at_once or self._socket is None:
            self._close()
            return
        self._is_ending = True
        self._socket.on_readable(None)
        self._timer.cancel()
        self._timer = self._sign_ins.runtime.call_later(
            self._sign_ins.failure_delay_s, self._tell_failure
        )

    def _tell_failure(self) -> None:
        self._flush()
        self._close()

    def give_up(self, reason: str) -> None:
        """End a sign-in that comes to nothing: the client is told nothing."""
        if self._socket is not None:
            if not self._is_ending:
                self._log(reason)
            self._close()

    def _log(self, reason: str) -> None:
        self._sign_ins.log_failure(self._conversation, self._caller, reason)

    def _time_out(self) -> None:
        self.give_up(f"not complete within {SIGN_IN_TIMEOUT_S:.0f} s")

    def _close(self) -> None:
        socket = self._socket
        if socket is not None:
            self._end()
            socket.close()
            self._failed()

    def _end(self) -> None:
        self._sign_ins.buffered_bytes -= self._frame.buffered
        self._frame = SmallFrame(0)
        self._sign_ins.buffered_bytes += self._frame.buffered
        self._socket = None
        self._timer.cancel()
        self._sign_ins.ended(self)
