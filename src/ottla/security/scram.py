"""SCRAM (RFC 5802, RFC 7677): what clients and brokers compute alike, and Kafka's bounds.

As in Kafka, names and passwords are used as UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""The most that Kafka accepts for a user; existing ones may have more."""


class ScramHash(NamedTuple):
    mechanism: str
    number: int
    """The mechanism's number in Kafka's protocol."""
    name: str
    """The name by which `hashlib` knows it."""

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Takes milliseconds, by design: never on a broker's event loop."""
        return hashlib.pbkdf2_hmac(self.name, password, salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Server Key")

    def stored_key(self, client_key: bytes) -> bytes:
        return hashlib.new(self.name, client_key).digest()

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.name)


SCRAM_MECHANISMS: Final = {
    one.mechanism: one
    for one in (ScramHash("SCRAM-SHA-256", 1, "sha256"), ScramHash("SCRAM-SHA-512", 2, "sha512"))
}


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
