"""SCRAM credentials of delegation tokens: the id of a token is the name, its HMAC the password.

They are derived from the secret key of the cluster when a token is first used here, which takes up
to 3 ms, and then remembered. The salt of an id is the same each time, also of an id that is no
token: so nobody learns which tokens exist.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.metadata.security_image import ScramCredential
from ottla.broker.server.sign_in.mechanisms import InvalidCredentials
from ottla.security.principal import KafkaPrincipal
from ottla.security.scram import ITERATIONS_MIN
from ottla.security.token_hmac import token_hmac

if TYPE_CHECKING:
    from ottla.broker.metadata.security_image import DelegationToken
    from ottla.security.scram import ScramHash

REMEMBERED_MAX: Final = 10_000
"""About 5 MB."""
_SALT_BYTES: Final = 20


class TokenSignIn(NamedTuple):
    """The credential of a token, and whose it is."""

    credential: ScramCredential
    owner: str | None
    """The name of the user that the client becomes; None if there is no such token."""
    expires_at_ms: int | None


class TokenCredentials:
    """The least recently used ones are forgotten."""

    def __init__(self) -> None:
        self._derived: OrderedDict[tuple[str, int], ScramCredential] = OrderedDict()

    def find(
        self,
        tokens: Mapping[str, DelegationToken],
        secret_key: bytes,
        token_id: str,
        scram: ScramHash,
        now_ms: int,
    ) -> TokenSignIn:
        token = tokens.get(token_id)
        if token is None:
            salt = _salt(secret_key, token_id, scram)
            return TokenSignIn(ScramCredential(salt, b"", b"", ITERATIONS_MIN), None, None)
        if token.is_expired(now_ms):
            raise InvalidCredentials("the delegation token has expired")
        owner = KafkaPrincipal.parse(token.owner).name
        credential = self._credential(secret_key, token_id, scram)
        return TokenSignIn(credential, owner, token.expiration_timestamp_ms)

    def _credential(self, secret_key: bytes, token_id: str, scram: ScramHash) -> ScramCredential:
        known = self._derived.get((token_id, scram.number))
        if known is None:
            salt = _salt(secret_key, token_id, scram)
            password = b64encode(token_hmac(secret_key, token_id))
            salted = scram.salted_password(password, salt, ITERATIONS_MIN)
            stored = scram.stored_key(scram.client_key(salted))
            known = ScramCredential(salt, stored, scram.server_key(salted), ITERATIONS_MIN)
            self._derived[token_id, scram.number] = known
            if len(self._derived) > REMEMBERED_MAX:
                self._derived.popitem(last=False)
        self._derived.move_to_end((token_id, scram.number))
        return known


def _salt(secret_key: bytes, token_id: str, scram: ScramHash) -> bytes:
    made_of = f"salt of {scram.mechanism} for {token_id}".encode()
    return hmac.digest(secret_key, made_of, "sha512")[:_SALT_BYTES]
