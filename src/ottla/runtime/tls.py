"""TLS."""

from __future__ import annotations


class TlsError(OSError):
    """TLS itself failed: a certificate that is not trusted, a peer that refuses ours."""
