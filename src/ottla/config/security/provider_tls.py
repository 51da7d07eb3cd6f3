"""The TLS of the way to an identity provider. As in Kafka, options of the JAAS line say whom to
trust there: the `ssl.*` keys of a listener are about other nodes and clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.security.oauth.options import BadOption

_INLINE: Final = (
    *("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
)


@dataclass(frozen=True, slots=True)
class ProviderTls:
    """Files that secure the way to the provider; without `ca` the system's list is trusted."""

    ca: str | None = None
    ca_password: str | None = field(default=None, repr=False)
    certificate: str | None = None
    password: str | None = field(default=None, repr=False)


SYSTEM_TLS: Final = ProviderTls()


def provider_tls(jaas: Mapping[str, str]) -> ProviderTls:
    """Read the options that Java's clients have for the way to the provider."""
    for name in _INLINE:
        if name in jaas:
            store = name.rpartition(".")[0].removesuffix(".certificate")
            raise BadOption(name, f"put it into a PEM file and name that in {store}.location")
    return ProviderTls(
        jaas.get("ssl.truststore.location"),
        jaas.get("ssl.truststore.password"),
        jaas.get("ssl.keystore.location"),
        jaas.get("ssl.keystore.password") or jaas.get("ssl.key.password"),
    )
