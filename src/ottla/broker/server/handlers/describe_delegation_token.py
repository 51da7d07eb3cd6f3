"""DescribeDelegationToken: the tokens that the client may see, with the HMACs to use them."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._delegation_tokens import (
    NOT_ALLOWED,
    REQUESTER_FROM,
    may_request_tokens,
)
from ottla.config.security.tokens import token_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.runtime.pace import at_once, many_in_slices
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, ResourceType
from ottla.security.token_hmac import token_hmac

if TYPE_CHECKING:
    from ottla.broker.metadata.security_image import DelegationToken
    from ottla.broker.server.context import NodeContext

AT_ONCE_TOKENS_MAX: Final = 200
"""Above this number of tokens in the cluster they are searched in slices."""


def handle(
    context: NodeContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse | Coroutine[Any, Any, DescribeDelegationTokenResponse]:
    if not may_request_tokens(context.caller):
        return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)
    settings = token_settings(context.services.config)
    if settings is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    steps = _answer(context, owners, settings.secret_key)
    if len(context.services.metadata.image.delegation_tokens) <= AT_ONCE_TOKENS_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _answer(
    context: NodeContext, owners: set[str] | None, secret_key: bytes
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    response = DescribeDelegationTokenResponse()
    for token_id, token in context.services.metadata.image.delegation_tokens.items():
        concerned = (token.owner, token.requester, *token.renewers)
        is_asked_for = owners is None or not owners.isdisjoint(concerned)
        if is_asked_for and _may_see(context, token_id, token):
            described = _described(token_id, token, secret_key)
            if context.api_version < REQUESTER_FROM:
                described.token_requester_principal_type = ""
                described.token_requester_principal_name = ""
            response.tokens.append(described)
        yield
    return response


def _may_see(context: NodeContext, token_id: str, token: DelegationToken) -> bool:
    return (
        str(context.caller.principal) in (token.owner, token.requester, *token.renewers)
        or context.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id, quiet=True)
        or context.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, quiet=True)
    )


def _described(
    token_id: str, token: DelegationToken, secret_key: bytes
) -> DescribedDelegationToken:
    owner, requester = KafkaPrincipal.parse(token.owner), KafkaPrincipal.parse(token.requester)
    renewers = [KafkaPrincipal.parse(renewer) for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token_id,
        hmac=token_hmac(secret_key, token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in renewers
        ],
    )


HANDLER = Handler(on_broker=handle, on_controller=handle)
