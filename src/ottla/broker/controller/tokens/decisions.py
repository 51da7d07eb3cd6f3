"""Decides on delegation tokens: Kafka's rules and codes.

`settings` is None if tokens are switched off. A request that is refused for what it asks of the
controller is answered with timestamps of 0.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.decision import Decision
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from ottla.protocol.metadata_records.remove_delegation_token_record import (
    RemoveDelegationTokenRecord,
)
from ottla.security.principal import USER_TYPE, KafkaPrincipal
from ottla.security.token_hmac import token_hmac

if TYPE_CHECKING:
    from ottla.broker.controller.tokens.index import TokenIndex
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.metadata.security_image import DelegationToken
    from ottla.config.security.tokens import TokenSettings

INT64_MAX: Final = 2**63 - 1
REMOVED_AT_ONCE_MAX: Final = 1_000


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Return whom a new token is for: the requester, unless the request names another."""
    name, kind = request.owner_principal_name, request.owner_principal_type
    if not name:
        return KafkaPrincipal(requester.type, requester.name)
    return KafkaPrincipal(kind or "", name)


def names_other_types(request: CreateDelegationTokenRequest) -> bool:
    """True if a renewer is not a user."""
    return any(renewer.principal_type != USER_TYPE for renewer in request.renewers)


def create_token(
    request: CreateDelegationTokenRequest,
    requester: KafkaPrincipal,
    settings: TokenSettings | None,
    token_id: str,
    now_ms: int,
) -> Decision[CreateDelegationTokenResponse]:
    owner = owner_of(request, requester)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    if settings is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return Decision([], response)
    if names_other_types(request):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return Decision([], response)
    lifetime_ms = settings.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    response.token_id = token_id
    response.hmac = token_hmac(settings.secret_key, token_id)
    response.issue_timestamp_ms = now_ms
    response.max_timestamp_ms = _after(now_ms, lifetime_ms)
    response.expiry_timestamp_ms = min(
        response.max_timestamp_ms, _after(now_ms, settings.expiry_time_ms)
    )
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{one.principal_type}:{one.principal_name}" for one in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=response.max_timestamp_ms,
        expiration_timestamp=response.expiry_timestamp_ms,
        token_id=token_id,
    )
    return Decision([record], response)


def renew_token(
    image: MetadataImage,
    request: RenewDelegationTokenRequest,
    requester: KafkaPrincipal,
    settings: TokenSettings | None,
    index: TokenIndex | None,
    now_ms: int,
) -> Decision[RenewDelegationTokenResponse]:
    if settings is None or index is None:
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id = index.find(image.delegation_tokens, request.hmac)
    if token_id is None:
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    token = image.delegation_tokens[token_id]
    if token.is_expired(now_ms):
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.belongs_to(requester):
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period_ms = settings.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp_ms, now_ms + period_ms)
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision([_expiring(token_id, token, expiry_ms)], response)


def expire_token(
    image: MetadataImage,
    request: ExpireDelegationTokenRequest,
    requester: KafkaPrincipal,
    index: TokenIndex | None,
    now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    """A negative period removes the token at once, also one that has expired."""
    if index is None:
        return _not_expired(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id = index.find(image.delegation_tokens, request.hmac)
    if token_id is None:
        return _not_expired(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    token = image.delegation_tokens[token_id]
    if not token.belongs_to(requester):
        return _not_expired(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if request.expiry_time_period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token_id)
        return Decision([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    if token.is_expired(now_ms):
        return _not_expired(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    expiry_ms = min(token.max_timestamp_ms, _after(now_ms, request.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision([_expiring(token_id, token, expiry_ms)], response)


def remove_expired(image: MetadataImage, now_ms: int) -> Decision[bool]:
    """Remove expired tokens; True if there may be more of them."""
    # Written out: a call for each of a hundred thousand tokens would hold the loop.
    expired = (
        token_id
        for token_id, token in image.delegation_tokens.items()
        if token.expiration_timestamp_ms < now_ms or token.max_timestamp_ms < now_ms
    )
    records = [
        RemoveDelegationTokenRecord(token_id=token_id)
        for token_id in islice(expired, REMOVED_AT_ONCE_MAX)
    ]
    return Decision(records, len(records) == REMOVED_AT_ONCE_MAX)


def _after(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, INT64_MAX)


def _expiring(token_id: str, token: DelegationToken, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=expiry_ms,
        token_id=token_id,
    )


def _not_renewed(code: ErrorCode) -> Decision[RenewDelegationTokenResponse]:
    return Decision([], RenewDelegationTokenResponse(error_code=code))


def _not_expired(code: ErrorCode) -> Decision[ExpireDelegationTokenResponse]:
    return Decision([], ExpireDelegationTokenResponse(error_code=code))
