"""SCRAM (RFC 5802, RFC 7677): proves that both sides know a password, without sending it.

It is pure: messages in, messages out. As in Kafka, names and passwords are used as UTF-8 bytes.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from ottla.security.scram import ITERATIONS_MIN, ScramHash, xor

ITERATIONS_MAX = 1_000_000
"""Each iteration costs time here: a peer must not be able to demand hours of work."""

_NUMBER = re.compile("[0-9]{1,9}")
NO_CHANNEL_BINDING = "n,,"
TOKEN_EXTENSION = ",tokenauth=true"


class ScramRefused(Exception):
    """The server refuses the client, or does not prove that it knows the password."""


class ScramClient:
    """Call `first`, then `final` with the server's first message, then `check` with its last."""

    def __init__(
        self,
        scram: ScramHash,
        username: str,
        password: str,
        nonce: str,
        *,
        by_token: bool = False,
    ) -> None:
        """`by_token`: the name is the id of a delegation token, the password its HMAC."""
        self._scram = scram
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={_escaped(username)},r={nonce}{TOKEN_EXTENSION if by_token else ''}"
        self._server_signature = b""

    def first(self) -> bytes:
        return (NO_CHANNEL_BINDING + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        text = _text(server_first)
        fields = _fields(text)
        nonce, salt, iterations = self._checked(fields)
        binding = b64encode(NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = ",".join((self._first_bare, text, without_proof)).encode()
        scram = self._scram
        salted = scram.salted_password(self._password, salt, iterations)
        client_key = scram.client_key(salted)
        proof = xor(client_key, scram.hmac(scram.stored_key(client_key), signed))
        self._server_signature = scram.hmac(scram.server_key(salted), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        fields = _fields(_text(server_final))
        if "e" in fields:
            raise ScramRefused(f"the server says {fields['e']}")
        shown = _decoded(fields.get("v", ""))
        if not self._server_signature or not hmac.compare_digest(shown, self._server_signature):
            raise ScramRefused("the server does not show that it knows the password")

    def _checked(self, fields: dict[str, str]) -> tuple[str, bytes, int]:
        if "e" in fields:
            raise ScramRefused(f"the server says {fields['e']}")
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramRefused("the nonce of the server does not continue ours")
        count = fields.get("i", "")
        iterations = int(count) if _NUMBER.fullmatch(count) else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramRefused(
                f"the server asks for {count[:20]!r} iterations; "
                f"from {ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
            )
        salt = _decoded(fields.get("s", ""))
        if not salt:
            raise ScramRefused("the server sent no salt")
        return nonce, salt, iterations


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramRefused("the server sent something else than SCRAM") from None


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64:
        raise ScramRefused(f"the server sent {text[:100]!r}, which is not Base64") from None
