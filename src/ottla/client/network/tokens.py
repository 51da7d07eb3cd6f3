"""Reads from a client's settings how it signs in by OAUTHBEARER: with tokens of a function, of an
identity provider, or of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.client.errors import BadSetting
from ottla.client.settings.common import ClientSettings
from ottla.config.security.oauth_login import token_endpoint
from ottla.network.oauth.sign_in import signing_in_with_tokens
from ottla.network.sasl_mechanisms import BeginSignIn, Mechanism, OauthBearer
from ottla.runtime.runtime import Runtime
from ottla.security.oauth.options import BadOption, extensions_of
from ottla.security.oauth.unsecured import UnsecuredTokens

_EXTENSIONS = "sasl_oauthbearer_extensions"


def signing_in_by_token(settings: ClientSettings) -> BeginSignIn:
    """Return a function that begins each sign-in. Raises `BadSetting`."""
    provider = settings.sasl_oauth_token_provider
    url = settings.sasl_oauthbearer_token_endpoint_url
    extensions = _extensions(settings.sasl_oauthbearer_extensions)
    if provider is not None and url:
        reason = "set either it or sasl_oauth_token_provider"
        raise BadSetting("sasl_oauthbearer_token_endpoint_url", reason)
    if url:
        return signing_in_with_tokens(_endpoint(settings, extensions))
    if provider is None:
        reason = "OAUTHBEARER needs it, a function, or sasl_oauthbearer_token_endpoint_url"
        raise BadSetting("sasl_oauth_token_provider", reason)
    if isinstance(provider, UnsecuredTokens):
        return signing_in_with_tokens(replace(provider, extensions=extensions))
    function = provider

    async def begin(runtime: Runtime, _: str) -> Mechanism:
        return OauthBearer(await _token(runtime, function), extensions)

    return begin


def _endpoint(settings: ClientSettings, extensions: Mapping[str, str]) -> Any:
    files = {
        "ssl.truststore.location": settings.sasl_oauthbearer_ssl_cafile,
        "ssl.truststore.password": settings.sasl_oauthbearer_ssl_cafile_password,
        "ssl.keystore.location": settings.sasl_oauthbearer_ssl_certfile,
        "ssl.keystore.password": settings.sasl_oauthbearer_ssl_password,
    }
    try:
        found = token_endpoint(
            lambda name: getattr(settings, name.replace(".", "_")),
            {name: value for name, value in files.items() if value},
            urlencodes=settings.sasl_oauthbearer_header_urlencode,
        )
    except BadOption as error:
        raise BadSetting(error.name.replace(".", "_"), error.reason) from None
    return replace(found, extensions=extensions)


def _extensions(given: Mapping[str, str] | str) -> dict[str, str]:
    if isinstance(given, str):
        pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
        given = {name.strip(): value for name, _, value in pairs}
    try:
        return extensions_of(given, "")
    except BadOption as error:
        raise BadSetting(_EXTENSIONS, str(error)) from None


async def _token(runtime: Runtime, provider: Callable[[], Any]) -> str:
    """Get a token. A plain function runs in a thread, because it may ask a server."""
    if inspect.iscoroutinefunction(provider):
        token = await provider()
    else:
        token = await runtime.in_thread(provider)
        if inspect.isawaitable(token):
            token = await token
    if not isinstance(token, str) or not token:
        raise BadSetting("sasl_oauth_token_provider", f"it returned {type(token)}, not a token")
    return token
