"""The TLS context of requests to an identity provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.runtime.tls.client import Context, TlsFiles, client_context

if TYPE_CHECKING:
    from ottla.config.security.provider_tls import ProviderTls


def provider_context(tls: ProviderTls) -> Context:
    """Read the files; raises `BadTlsFile`. Takes time, so call it in a thread."""
    return client_context(
        TlsFiles(tls.ca, tls.certificate, password=tls.password, ca_password=tls.ca_password)
    )
