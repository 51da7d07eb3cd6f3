"""The session of a client that must sign in again (KIP-368), on the connection that it has.

Requests are found in `routes`, as without a session: that costs them nothing. When the session
expires, and when the client begins to sign in again, `routes` is emptied: each request then asks
`route`, which knows what may come now. After the session has expired only a new sign-in is served;
any other request closes the connection.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.contract import CannotTell
from ottla.broker.server.dispatch import NotServed
from ottla.broker.server.pending import Pending
from ottla.broker.server.sign_in.conversation import (
    FRAMED_FROM,
    Conversation,
    OutOfOrder,
    SignInFailed,
    Stage,
)
from ottla.logs import get_logger
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.server.connections.connection import Connection
    from ottla.broker.server.context import NodeContext
    from ottla.broker.server.dispatch import Dispatcher, Route
    from ottla.broker.server.services import NodeServices
    from ottla.broker.server.sign_in.conversation import SignedIn
    from ottla.broker.server.sign_in.sign_ins import ListenerSasl, SignIns
    from ottla.runtime.runtime import Timer
    from ottla.security.principal import KafkaPrincipal

log = get_logger("ottla.network")

BETWEEN_SIGN_INS_S_MIN: Final = 1.0
"""A client that signs in again sooner after it did so is told that this is out of order."""


class Session:
    """Takes the place of the dispatcher for one connection."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        sign_ins: SignIns,
        listener: ListenerSasl,
        services: NodeServices,
        signed_in: SignedIn,
    ) -> None:
        self.kind = dispatcher.kind
        self.routes: dict[int, Route] = {}
        self._dispatcher = dispatcher
        self._sign_ins = sign_ins
        self._runtime = sign_ins.runtime
        self._listener = listener
        self._services = services
        self._signed_in = signed_in
        self._connection: Connection | None = None
        self._conversation: Conversation | None = None
        """Not None while the client signs in again."""
        self._last_began_s: float | None = None
        self._has_expired = False
        self._timer: Timer | None = None

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        self._renew(self._signed_in)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _renew(self, signed_in: SignedIn) -> None:
        self.close()
        self._signed_in = signed_in
        self._has_expired = False
        if signed_in.lifetime_ms is not None:
            self._timer = self._runtime.call_later(signed_in.lifetime_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._has_expired = True
        self.routes.clear()

    def route(self, key: int, version: int) -> Route:
        """Return the route of a request; raises `NotServed` if there is none."""
        if self._conversation is not None:
            return self._served_by_sign_in(key, version, self._conversation)
        route = self._dispatcher.find(key, version)
        if key == ApiKey.SASL_HANDSHAKE and version >= FRAMED_FROM:
            route = copy(route)
            route.handle = self._begin_again
        elif self._has_expired:
            assert self._connection is not None
            peer, principal = self._connection.peer, str(self._connection.caller.principal)
            log.info("closing a connection whose session has expired", peer=peer, user=principal)
            self._connection.close("its session has expired")
            route = copy(route)
            route.handle = _serve_nothing
        else:
            self.routes[key << 16 | version] = route
        return route

    # --- signing in again -----------------------------------------------------------------------

    def _begin_again(self, context: NodeContext, request: Any) -> Any:
        now_s = self._runtime.clock.now()
        began_s = self._last_began_s
        if began_s is not None and now_s - began_s < BETWEEN_SIGN_INS_S_MIN:
            route = self._dispatcher.find(context.api_key, context.api_version)
            return route.handle(context, request)
        self._last_began_s = now_s
        self.routes.clear()
        self._conversation = Conversation(
            self._listener.settings.mechanisms,
            lambda name: self._sign_ins.mechanism(name, self._listener, self._services),
            self._listener.settings.reauth_ms,
            self._signed_in,
        )
        return self._take(context, request)

    def _served_by_sign_in(self, key: int, version: int, conversation: Conversation) -> Route:
        try:
            found = self._dispatcher.find(key, version)
        except NotServed as error:
            self._log(conversation, str(error))
            raise
        route = copy(found)
        route.handle = self._take
        return route

    def _take(self, context: NodeContext, request: Any) -> Any:
        """Serve a request of the sign-in; every other one ends it."""
        conversation = self._conversation
        assert conversation is not None
        key = ApiKey(context.api_key)
        try:
            conversation.expect(key)
            if key is ApiKey.SASL_HANDSHAKE:
                return conversation.handshake(request, context.api_version)
            if key is ApiKey.SASL_AUTHENTICATE:
                if conversation.prepare is not None:
                    return self._take_slowly(conversation, conversation.prepare, context, request)
                response = conversation.authenticate(request, self._runtime.clock.wall_ms())
                self._end_if_complete(conversation)
                return response
            raise OutOfOrder(key, "re-authentication", answered=False)
        except SignInFailed as error:
            return self._refused(conversation, context, request, error)

    def _take_slowly(
        self,
        conversation: Conversation,
        prepare: Callable[[bytes], None],
        context: NodeContext,
        request: Any,
    ) -> Pending:
        pending = Pending()

        async def take() -> None:
            await self._runtime.in_thread(prepare, request.auth_bytes)
            if pending.resolved:
                return  # the client has left
            try:
                response = conversation.authenticate(request, self._runtime.clock.wall_ms())
            except SignInFailed as error:
                self._log(conversation, str(error))
                delay_s = self._sign_ins.failure_delay_s
                self._runtime.call_later(delay_s, self._tell, pending, error.response)
                return
            self._end_if_complete(conversation)
            pending.resolve(response)

        self._runtime.spawn(take(), name="sign in again")
        return pending

    def _end_if_complete(self, conversation: Conversation) -> None:
        if conversation.stage is Stage.COMPLETE and conversation.result is not None:
            self._conversation = None
            self.routes.clear()
            self._renew(conversation.result)
            self._change_caller(conversation.result.principal)

    def _change_caller(self, principal: KafkaPrincipal) -> None:
        """The user stays the same, but a token may have followed a password."""
        connection = self._connection
        if connection is not None and connection.caller.principal != principal:
            connection.caller = connection.caller.as_principal(principal)

    def _refused(
        self, conversation: Conversation, context: NodeContext, request: Any, error: SignInFailed
    ) -> Pending:
        """Tell the client after the delay, then close its connection. As in Kafka, it is told
        nothing about a mechanism that it may not use."""
        self._log(conversation, str(error))
        if error.at_once or context.api_key == ApiKey.SASL_HANDSHAKE:
            raise CannotTell(str(error))
        response = error.response
        if isinstance(error, OutOfOrder) and error.error is not None:
            route = self._dispatcher.find(context.api_key, context.api_version)
            response = route.refuse(request, error.error) if route.refuse else None
            response = response or route.error_response(error.error)
        pending = Pending()
        self._runtime.call_later(self._sign_ins.failure_delay_s, self._tell, pending, response)
        return pending

    def _tell(self, pending: Pending, response: Any) -> None:
        if not pending.resolved:
            pending.resolve(response)
        if self._connection is not None:
            self._connection.close("signing in again failed")

    def _log(self, conversation: Conversation, reason: str) -> None:
        if self._connection is not None:
            self._sign_ins.log_failure(conversation, self._connection.caller, reason, again=True)


def _serve_nothing(context: NodeContext, request: Any) -> None:
    """The connection is closed."""
