"""The HMAC of a delegation token, which is its password."""

from __future__ import annotations

import hmac


def token_hmac(secret_key: bytes, token_id: str) -> bytes:
    """Return the HMAC-SHA-512 of the id, as all nodes with the same secret key compute it."""
    return hmac.digest(secret_key, token_id.encode(), "sha512")
