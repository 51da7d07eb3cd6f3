"""Translates how Java's clients sign in by OAUTHBEARER: options of the JAAS line for tokens without
a signature, or for an identity provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.errors import BadSetting
from ottla.config.security.provider_tls import provider_tls
from ottla.security.java_classes import FETCHED_LOGIN, UNSECURED_LOGIN
from ottla.security.oauth.options import BadOption, extensions_of
from ottla.security.oauth.unsecured import UNSECURED_EXTENSION, UnsecuredTokens

_URL = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION = "extension_"
_CREDENTIALS = {
    "clientId": "sasl_oauthbearer_client_credentials_client_id",
    "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
    "scope": "sasl_oauthbearer_scope",
}


def token_options(jaas: Mapping[str, str], given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Raises `BadSetting`. `given` are the other settings, by Kafka's names."""
    handler = given.get("sasl.login.callback.handler.class", "").strip()
    has_url = bool(given.get(_URL, "").strip())
    if not has_url and (handler in FETCHED_LOGIN or _CREDENTIALS.keys() & jaas.keys()):
        raise BadSetting(f"{prefix}{_URL}", "must say where the tokens are had")
    try:
        if handler == UNSECURED_LOGIN or not has_url:
            return _unsecured(jaas)
        return _fetched(jaas)
    except BadOption as error:
        raise BadSetting(f"{prefix}sasl.jaas.config", str(error)) from None


def _unsecured(jaas: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"sasl_oauth_token_provider": UnsecuredTokens.parse(jaas)}
    if extensions := extensions_of(jaas, UNSECURED_EXTENSION):
        found["sasl_oauthbearer_extensions"] = extensions
    return found


def _fetched(jaas: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: jaas[option] for option, name in _CREDENTIALS.items() if option in jaas
    }
    tls = provider_tls(jaas)
    files = {
        "sasl_oauthbearer_ssl_cafile": tls.ca,
        "sasl_oauthbearer_ssl_cafile_password": tls.ca_password,
        "sasl_oauthbearer_ssl_certfile": tls.certificate,
        "sasl_oauthbearer_ssl_password": tls.password,
    }
    found |= {name: value for name, value in files.items() if value is not None}
    if extensions := extensions_of(jaas, _EXTENSION):
        found["sasl_oauthbearer_extensions"] = extensions
    return found
