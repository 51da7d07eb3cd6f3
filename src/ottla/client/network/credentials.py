"""Reads from a client's settings how its connections are secured: TLS files, SASL credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.errors import BadSetting, TlsFailed
from ottla.client.settings.common import ClientSettings
from ottla.network.sasl_mechanisms import BeginSignIn, signing_in_with
from ottla.network.security import Security

if TYPE_CHECKING:
    from ottla.runtime.tls.client import Context


def security_of(settings: ClientSettings) -> Security:
    """Read the files that the settings name, once for all connections."""
    signs_in = settings.security_protocol.startswith("SASL_")
    return Security(
        _context(settings) if settings.security_protocol.endswith("SSL") else None,
        settings.sasl_mechanism if signs_in else "",
        _mechanism_of(settings) if signs_in else None,
    )


def _context(settings: ClientSettings) -> Context:
    from ottla.runtime.tls.client import TlsFiles, client_context
    from ottla.runtime.tls.socket import BadTlsFile

    if settings.ssl_context is not None:
        return settings.ssl_context
    try:
        return client_context(
            TlsFiles(
                settings.ssl_cafile,
                settings.ssl_certfile,
                settings.ssl_keyfile,
                settings.ssl_password,
                settings.ssl_cafile_password,
                settings.ssl_check_hostname,
            )
        )
    except BadTlsFile as error:
        raise TlsFailed(None, str(error)) from error


def _mechanism_of(settings: ClientSettings) -> BeginSignIn:
    """Return a function that begins each authentication. Raises `BadSetting` if a setting is
    missing."""
    name = settings.sasl_mechanism
    if name == "OAUTHBEARER":
        from ottla.client.network.tokens import signing_in_by_token

        return signing_in_by_token(settings)
    if name == "GSSAPI":
        return _ticket(settings)
    username, password = settings.sasl_username, settings.sasl_password
    for setting, value in (("sasl_username", username), ("sasl_password", password)):
        if value is None:
            raise BadSetting(setting, f"{name} needs it")
    assert username is not None
    assert password is not None
    if settings.sasl_token_auth and not name.startswith("SCRAM-"):
        raise BadSetting("sasl_token_auth", f"delegation tokens sign in by SCRAM, not by {name}")
    return signing_in_with(name, username, password, by_token=settings.sasl_token_auth)


def _ticket(settings: ClientSettings) -> BeginSignIn:
    from ottla.network.gssapi import signing_in_with_ticket
    from ottla.runtime.kerberos import HOW_TO_INSTALL, is_installed

    if not is_installed():
        raise BadSetting("sasl_mechanism", HOW_TO_INSTALL)
    service = settings.sasl_kerberos_service_name
    if not service:
        reason = "GSSAPI needs it: the first part of the brokers' principals, such as kafka"
        raise BadSetting("sasl_kerberos_service_name", reason)
    return signing_in_with_ticket(
        service, settings.sasl_kerberos_principal, settings.sasl_kerberos_keytab
    )
