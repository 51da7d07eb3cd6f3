"""SaslHandshake, outside of a sign-in: on a listener without SASL, or once a client is signed in.

While clients sign in, `broker/server/sign_in` answers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext


def handle(_context: NodeContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


HANDLER = Handler(on_broker=handle, on_controller=handle)
