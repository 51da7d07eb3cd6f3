"""Kafka's own Java classes for signing in, which settings may name. What they do is done here;
other classes cannot run."""

from __future__ import annotations

from typing import Final

_SECURITY: Final = "org.apache.kafka.common.security"
_PACKAGE: Final = f"{_SECURITY}.oauthbearer"
UNSECURED_LOGIN: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
FETCHED_LOGIN: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",  # its name in Kafka 3
)
LOGIN_HANDLERS: Final = (*FETCHED_LOGIN, UNSECURED_LOGIN)
UNSECURED_SERVER: Final = (
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
SIGNED_SERVER: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
SERVER_HANDLERS: Final = (*SIGNED_SERVER, UNSECURED_SERVER)
CLIENT_HANDLERS: Final = (
    f"{_PACKAGE}.internals.OAuthBearerSaslClientCallbackHandler",
    f"{_SECURITY}.authenticator.SaslClientCallbackHandler",
)
PLAIN_SERVER: Final = (f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",)
SCRAM_SERVER: Final = (f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",)
KERBEROS_SERVER: Final = (f"{_SECURITY}.authenticator.SaslServerCallbackHandler",)
PASSWORD_LOGIN: Final = (f"{_SECURITY}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",)
LOGINS: Final = (
    f"{_SECURITY}.authenticator.DefaultLogin",
    f"{_PACKAGE}.internals.OAuthBearerRefreshingLogin",
    f"{_SECURITY}.kerberos.KerberosLogin",
)
FILE_RETRIEVER: Final = f"{_PACKAGE}.FileJwtRetriever"
CREDENTIALS_RETRIEVER: Final = f"{_PACKAGE}.ClientCredentialsJwtRetriever"
RETRIEVERS: Final = (
    f"{_PACKAGE}.DefaultJwtRetriever",
    CREDENTIALS_RETRIEVER,
    FILE_RETRIEVER,
)
VALIDATORS: Final = (
    f"{_PACKAGE}.DefaultJwtValidator",
    f"{_PACKAGE}.BrokerJwtValidator",
    f"{_PACKAGE}.ClientJwtValidator",
)


def refusal(built_in: tuple[str, ...]) -> str:
    """Return what to tell about a class that is none of these."""
    reason = "names a Java class, which cannot run here; leave it out"
    names = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in built_in))
    return f"{reason}, or name one whose work is done here: {names}" if names else reason
