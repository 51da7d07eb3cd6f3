"""PLAIN (RFC 4616): a name and a password, against those of the JAAS line."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from ottla.broker.server.sign_in.mechanisms import Refused

_PARTS: Final = 3


class PlainUsers:
    """The users of a listener. It takes as long to refuse an unknown user as a wrong password."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {user: _digest(password) for user, password in passwords.items()}

    def knows(self, user: str, password: str) -> bool:
        expected = self._digests.get(user)
        # The digest of a client's password is never 32 zero bytes.
        is_right = hmac.compare_digest(_digest(password), expected or bytes(32))
        return is_right and expected is not None


class PlainServer:
    expires_at_ms: int | None = None
    is_by_token = False

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.user = ""
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        # At most four parts are cut, so that a token of zero bytes makes no long list.
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise Refused("Authentication failed: username not specified")
        self.user = user
        if not password:
            raise Refused("Authentication failed: password not specified")
        if not self._users.knows(user, password):
            raise Refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise Refused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.is_complete = True
        return b""


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode(errors="surrogatepass")).digest()
