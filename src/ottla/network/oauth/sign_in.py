"""The beginning of each sign-in with a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.security.oauth_login import TokenEndpoint
from ottla.network.oauth.source import TokenSource
from ottla.network.sasl_mechanisms import BeginSignIn, Mechanism, OauthBearer

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime
    from ottla.security.oauth.unsecured import UnsecuredTokens


def signing_in_with_tokens(tokens: UnsecuredTokens | TokenEndpoint) -> BeginSignIn:
    if isinstance(tokens, TokenEndpoint):
        source, extensions = TokenSource(tokens), tokens.extensions

        async def fetched(runtime: Runtime, _: str) -> Mechanism:
            token = await source.token(runtime)
            return OauthBearer(token, extensions, lambda: source.discard(runtime, token))

        return fetched

    async def made(runtime: Runtime, _: str) -> Mechanism:
        return OauthBearer(tokens.token(runtime.clock.wall_ms()), tokens.extensions)

    return made
