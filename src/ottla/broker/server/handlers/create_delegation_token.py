"""CreateDelegationToken: a broker checks the request, the active controller makes the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.controller.tokens.decisions import names_other_types, owner_of
from ottla.broker.server.contract import Handler
from ottla.broker.server.envelopes.forwarding import ask_controller
from ottla.broker.server.handlers._delegation_tokens import (
    NO_TIME,
    NOT_ALLOWED,
    REQUESTER_FROM,
    may_request_tokens,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext, ControllerContext, NodeContext


def handle_on_broker(context: BrokerContext, request: CreateDelegationTokenRequest) -> Any:
    if _lacks_owner_type(request):
        return _failed(ANONYMOUS, ANONYMOUS, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    try:
        _check(context, request)
        if names_other_types(request):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        return _refused(context, request, error)
    return ask_controller(context, request, refuse)


async def handle(
    context: ControllerContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    if _lacks_owner_type(request):
        return _failed(ANONYMOUS, ANONYMOUS, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    try:
        _check(context, request)
    except KafkaError as error:
        return _refused(context, request, error)
    try:
        response = await context.services.controller.rights.tokens.create(
            request, context.caller.principal
        )
    except KafkaError as error:
        return refuse(request, error)
    return _in_version(context, response)


def _lacks_owner_type(request: CreateDelegationTokenRequest) -> bool:
    """True for an owner whom Kafka, too, cannot read."""
    return bool(request.owner_principal_name) and request.owner_principal_type is None


def _check(context: NodeContext, request: CreateDelegationTokenRequest) -> None:
    requester = context.caller.principal
    if not may_request_tokens(context.caller):
        raise KafkaError(NOT_ALLOWED)
    owner = str(owner_of(request, requester))
    # Everybody may create tokens for himself.
    if owner != str(requester) and not context.may(
        Operation.CREATE_TOKENS, ResourceType.USER, owner
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _refused(
    context: NodeContext, request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    requester = context.caller.principal
    return _in_version(context, _failed(owner_of(request, requester), requester, error))


def refuse(_: CreateDelegationTokenRequest, error: KafkaError) -> CreateDelegationTokenResponse:
    # Without a requester, as not all versions have a field for him.
    return _failed(ANONYMOUS, KafkaPrincipal("", ""), error)


def _failed(
    owner: KafkaPrincipal, requester: KafkaPrincipal, error: KafkaError
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


def _in_version(
    context: NodeContext, response: CreateDelegationTokenResponse
) -> CreateDelegationTokenResponse:
    if context.api_version < REQUESTER_FROM:
        response.token_requester_principal_type = ""
        response.token_requester_principal_name = ""
    return response


HANDLER = Handler(on_broker=handle_on_broker, on_controller=handle, refuse=refuse)
