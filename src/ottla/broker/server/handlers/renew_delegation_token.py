"""RenewDelegationToken: its owner and renewers make a token expire later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.server.contract import Handler
from ottla.broker.server.envelopes.forwarding import ask_controller
from ottla.broker.server.handlers._delegation_tokens import (
    NO_TIME,
    NOT_ALLOWED,
    may_request_tokens,
)
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext, ControllerContext
    from ottla.protocol.errors import KafkaError


def handle_on_broker(context: BrokerContext, request: RenewDelegationTokenRequest) -> Any:
    if not may_request_tokens(context.caller):
        return _not_allowed()
    return ask_controller(context, request, refuse)


async def handle(
    context: ControllerContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    if not may_request_tokens(context.caller):
        return _not_allowed()
    return await context.services.controller.rights.tokens.renew(request, context.caller.principal)


def _not_allowed() -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)


def refuse(_: RenewDelegationTokenRequest, error: KafkaError) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code)


HANDLER = Handler(on_broker=handle_on_broker, on_controller=handle, refuse=refuse)
