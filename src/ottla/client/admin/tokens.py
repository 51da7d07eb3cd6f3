"""Admin calls for delegation tokens: short-lived credentials that a client gets for itself or hands
to others, who then sign in by SCRAM as the owner of the token."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import raise_for
from ottla.security.principal import KafkaPrincipal

_DEFAULT = -1
"""The cluster decides on a lifetime."""
_AT_ONCE = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals are written as in `User:alice`, times in milliseconds since the epoch."""

    token_id: str
    """The name to sign in with."""
    hmac: bytes = field(repr=False)
    """Identifies the token, and gives the password. Whoever has it can use the token."""
    owner: str
    requester: str
    """The user that made the token; empty if the cluster is too old to tell."""
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    """No renewal lets the token live longer."""

    @property
    def password(self) -> str:
        """The password to sign in with, with `sasl_token_auth=True`."""
        return b64encode(self.hmac).decode()


class TokenAdmin:
    _link: AdminLink

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationToken:
        """Create a token for this client's own user, or with the right to do so for another one.
        The renewers may renew and expire it, too.

        >>> token = await admin.create_delegation_token(renewers=["User:scheduler"])
        """
        from ottla.protocol.messages.create_delegation_token import (
            CreatableRenewers,
            CreateDelegationTokenRequest,
        )

        named = [KafkaPrincipal.parse(renewer) for renewer in renewers]
        request = CreateDelegationTokenRequest(
            renewers=[
                CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in named
            ],
            max_lifetime_ms=_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
        )
        if owner is not None:
            wanted = KafkaPrincipal.parse(owner)
            request.owner_principal_type = wanted.type
            request.owner_principal_name = wanted.name
        made = await self._link.change(lambda _: request)
        raise_for(made.error_code)
        return DelegationToken(
            made.token_id,
            made.hmac,
            _text(made),
            _requester(made),
            tuple(map(str, named)),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int | None = None) -> int:
        """Let a token expire in `period_ms` from now, or when the cluster lets tokens expire.
        Returns when that is."""
        from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

        period = _DEFAULT if period_ms is None else period_ms
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code)
        expiry_ms: int = response.expiry_timestamp_ms
        return expiry_ms

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int | None = None) -> int:
        """Let a token expire in `period_ms` from now, or remove it at once. Returns when it
        expires."""
        from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest

        period = _AT_ONCE if period_ms is None else period_ms
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code)
        expiry_ms: int = response.expiry_timestamp_ms
        return expiry_ms

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of these owners, or all, that this client may see."""
        from ottla.protocol.messages.describe_delegation_token import (
            DescribeDelegationTokenOwner,
            DescribeDelegationTokenRequest,
        )

        named = None
        if owners is not None:
            named = [
                DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name)
                for one in map(KafkaPrincipal.parse, owners)
            ]
        request = DescribeDelegationTokenRequest(owners=named)
        response = await self._link.ask_any(request)
        raise_for(response.error_code)
        return [
            DelegationToken(
                found.token_id,
                found.hmac,
                _text(found),
                _requester(found),
                tuple(f"{one.principal_type}:{one.principal_name}" for one in found.renewers),
                found.issue_timestamp,
                found.expiry_timestamp,
                found.max_timestamp,
            )
            for found in response.tokens
        ]


def _text(found: Any) -> str:
    return f"{found.principal_type}:{found.principal_name}"


def _requester(found: Any) -> str:
    name: str = found.token_requester_principal_name
    return f"{found.token_requester_principal_type}:{name}" if name else ""
