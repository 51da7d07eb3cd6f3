"""The tokens of the cluster, as the active controller changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.controller.tokens.decisions import create_token, expire_token, renew_token
from ottla.broker.controller.tokens.index import TokenIndex
from ottla.config.security.tokens import token_settings
from ottla.logs import get_logger
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.pace import Backlog

if TYPE_CHECKING:
    import asyncio

    from ottla.broker.metadata.delta import MetadataDelta
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.metadata.log import MetadataLog
    from ottla.config.broker import BrokerConfig
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
    from ottla.runtime.runtime import Runtime
    from ottla.security.principal import KafkaPrincipal

log = get_logger("ottla.controller")


class DelegationTokens:
    """Every method returns once its change is durable, as those of `Controller`."""

    def __init__(self, metadata: MetadataLog, config: BrokerConfig, runtime: Runtime) -> None:
        self._metadata = metadata
        self._runtime = runtime
        # None of the keys can change while the node runs.
        self._settings = token_settings(config)
        self._index: TokenIndex | None = None
        self._changes = Backlog(runtime, "follow-delegation-tokens")
        if self._settings is not None:
            self._index = TokenIndex(self._settings.secret_key)
            tokens = metadata.image.delegation_tokens
            self._changes.take(self._index.change(tokens, tokens))
            metadata.subscribe(self._metadata_changed)

    async def create(
        self, request: CreateDelegationTokenRequest, requester: KafkaPrincipal
    ) -> CreateDelegationTokenResponse:
        token_id = to_text(random_uuid(self._runtime.random))
        response = await self._metadata.write(
            lambda image: create_token(request, requester, self._settings, token_id, self._now_ms())
        )
        if not response.error_code:
            owner = f"{response.principal_type}:{response.principal_name}"
            log.info("delegation token created", id=token_id, owner=owner, requester=str(requester))
        return response

    async def renew(
        self, request: RenewDelegationTokenRequest, requester: KafkaPrincipal
    ) -> RenewDelegationTokenResponse:
        await self._changes.finished()
        return await self._metadata.write(
            lambda image: renew_token(
                image, request, requester, self._settings, self._index, self._now_ms()
            )
        )

    async def expire(
        self, request: ExpireDelegationTokenRequest, requester: KafkaPrincipal
    ) -> ExpireDelegationTokenResponse:
        await self._changes.finished()
        return await self._metadata.write(
            lambda image: expire_token(image, request, requester, self._index, self._now_ms())
        )

    def _metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage
    ) -> asyncio.Future[None] | None:
        if self._index is None or not delta.tokens:
            return None
        return self._changes.take(self._index.change(image.delegation_tokens, delta.tokens))

    def _now_ms(self) -> int:
        return self._runtime.clock.wall_ms()
