"""Finds tokens by their HMAC, by which clients name the token that they renew or expire."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.security.token_hmac import token_hmac

if TYPE_CHECKING:
    from ottla.broker.metadata.security_image import DelegationToken

Tokens = Mapping[str, "DelegationToken"]


class TokenIndex:
    """Follows the tokens of the image, so that a search takes the same time however many there
    are."""

    def __init__(self, secret_key: bytes) -> None:
        self._secret_key = secret_key
        self._ids: dict[bytes, str] = {}

    def change(self, tokens: Tokens, changed: Iterable[str]) -> Generator[None, None, None]:
        """Follow the tokens in steps; only those with the ids `changed` may differ."""
        for token_id in changed:
            hmac = token_hmac(self._secret_key, token_id)
            if token_id in tokens:
                self._ids[hmac] = token_id
            else:
                self._ids.pop(hmac, None)
            yield

    def find(self, tokens: Tokens, hmac: bytes) -> str | None:
        """Return the id of the token with this HMAC. `tokens` may lack some that the index has."""
        token_id = self._ids.get(bytes(hmac))
        return token_id if token_id in tokens else None
