"""Finds tokens by their HMAC, by which clients name the token that they renew or expire."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from ottla.security.token_hmac import token_hmac

if TYPE_CHECKING:
    from ottla.broker.metadata.security_image import DelegationToken

Tokens = Mapping[str, "DelegationToken"]


class TokenIndex:
    """Knows the HMACs of the tokens of one image, and adapts to the next in little time."""

    def __init__(self, secret_key: bytes) -> None:
        self._secret_key = secret_key
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._source: Tokens | None = None

    def learn(self, tokens: Tokens) -> Generator[None, None, None]:
        """Compute what `find` needs and does not know yet, so that it takes little time."""
        if tokens is not self._source:
            for token_id in list(tokens):
                if token_id not in self._hmacs:
                    self._add(token_id)
                yield

    def find(self, tokens: Tokens, hmac: bytes) -> str | None:
        """Return the id of the token with this HMAC."""
        if tokens is not self._source:
            for token_id in self._hmacs.keys() - tokens.keys():
                del self._ids[self._hmacs.pop(token_id)]
            for token_id in tokens.keys() - self._hmacs.keys():
                self._add(token_id)
            self._source = tokens
        return self._ids.get(bytes(hmac))

    def _add(self, token_id: str) -> None:
        hmac = self._hmacs[token_id] = token_hmac(self._secret_key, token_id)
        self._ids[hmac] = token_id
