"""SCRAM, the server's side: the client proves that it knows a password without sending it.

A user that does not exist gets a salt, too, and is refused where a wrong password is: so nobody
learns which users exist. Kafka refuses such a user one step earlier.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.broker.metadata.security_image import ScramCredential, ScramUser
from ottla.broker.server.sign_in.mechanisms import InvalidCredentials, Refused
from ottla.broker.server.sign_in.token_credentials import TokenSignIn
from ottla.security.scram import ITERATIONS_MIN, ScramHash, xor

# Kafka's patterns: RFC 5802, with names in ASCII.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authorization_id>{_NAME}))?,)(?P<bare>(?:m={_VALUE},)?"
    rf"n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
MESSAGE_BYTES_MAX: Final = 16 * 1024
"""Far more than a client of any kind sends: longer ones are not searched for fields."""
NONCE_BYTES: Final = 24
LOOKS_MAX: Final = 20
_SALT_BYTES: Final = 16
NO_CHANNEL_BINDING: Final = "n,,"
"""What Java's client repeats in its final message, whatever its first began with."""
_BASE36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class _Look(NamedTuple):
    """How a credential looks from outside."""

    salt_size: int
    salt_is_text: bool
    """True for salts of letters and digits, as Kafka's tools make them."""
    iterations: int


_USUAL_LOOK: Final = _Look(_SALT_BYTES, False, ITERATIONS_MIN)


class ScramUsers:
    """The SCRAM users of a cluster, and a stand-in for everyone who is none of them.

    The stand-in of a name is the same each time and on all brokers, and looks as a user does. Tools
    make credentials of several looks: of those in use a name gets always the same one, until a new
    look is more like it.
    """

    def __init__(self, secret: bytes) -> None:
        """`secret` makes the salts of stand-ins as long as there is no user at all."""
        self._secret = secret
        self._source: Mapping[ScramUser, ScramCredential] | None = None
        self._looks: dict[int, list[_Look]] = {}
        self._keys: dict[int, bytes] = {}
        """Keys of users, which nobody outside knows; they make the salts of stand-ins."""

    def find(
        self, credentials: Mapping[ScramUser, ScramCredential], user: str, scram: ScramHash
    ) -> tuple[ScramCredential, bool]:
        """Return the user's credential and True, or a stand-in and False."""
        stand_in = self._stand_in(credentials, user, scram)
        found = credentials.get((user, scram.number))
        return (stand_in, False) if found is None else (found, True)

    def _stand_in(
        self, credentials: Mapping[ScramUser, ScramCredential], user: str, scram: ScramHash
    ) -> ScramCredential:
        if credentials is not self._source:
            self._learn(credentials)
            self._source = credentials
        key = self._keys.get(scram.number, self._secret)
        looks = self._looks.get(scram.number, [_USUAL_LOOK])
        look = max(looks, key=lambda one: hmac.digest(key, f"{one}{user}".encode(), "sha256"))
        salt = hashlib.shake_256(key + user.encode()).digest(look.salt_size)
        if look.salt_is_text:
            salt = bytes(_BASE36[byte % len(_BASE36)] for byte in salt)
        return ScramCredential(salt, b"", b"", look.iterations)

    def _learn(self, credentials: Mapping[ScramUser, ScramCredential]) -> None:
        seen = {
            (number, len(one.salt), one.salt.isalnum(), one.iterations)
            for (_, number), one in credentials.items()
        }
        self._looks = {}
        for number, size, is_text, iterations in sorted(seen):
            known = self._looks.setdefault(number, [])
            if len(known) < LOOKS_MAX:
                known.append(_Look(size, is_text, iterations))
        self._keys = {}
        for number in self._looks:
            first = min(user for user, mechanism in credentials if mechanism == number)
            self._keys[number] = credentials[first, number].server_key


FindToken: TypeAlias = Callable[[str, ScramHash], TokenSignIn]
"""(id, mechanism) -> what it takes to sign in with this token. Raises `InvalidCredentials`."""


class ScramServer:
    def __init__(
        self,
        scram: ScramHash,
        users: ScramUsers,
        credentials: Mapping[ScramUser, ScramCredential],
        nonce: str,
        find_token: FindToken,
    ) -> None:
        """`nonce` is the server's part of the nonce, in printable ASCII without commas."""
        self._scram = scram
        self._users = users
        self._credentials = credentials
        self._nonce = nonce
        self._find_token = find_token
        self._owner: str | None = None
        self._gs2 = ""
        self._first_bare = b""
        self._server_first = b""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self.user = ""
        self.is_by_token = False
        self.expires_at_ms: int | None = None
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        if len(token) > MESSAGE_BYTES_MAX:
            raise InvalidCredentials(f"a SCRAM message of {len(token)} bytes")
        text = token.decode("latin-1")
        if self._credential is None:
            return self._first(text)
        return self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentials("Invalid SCRAM client first message format")
        self.user = _unescaped(match["user"])
        self.is_by_token = _asks_for_token(match["extensions"])
        credential = self._token_credential() if self.is_by_token else self._user_credential()
        asked_for = match["authorization_id"]
        if asked_for is not None and _unescaped(asked_for) != self.user:
            raise Refused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        if credential.iterations < ITERATIONS_MIN:
            raise InvalidCredentials(
                f"Iterations {credential.iterations} is less than the minimum {ITERATIONS_MIN}"
            )
        self._credential = credential
        self._nonce = match["nonce"] + self._nonce
        self._gs2 = match["gs2"]
        self._first_bare = match["bare"].encode("latin-1")
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        return self._server_first

    def _user_credential(self) -> ScramCredential:
        credential, self._is_known = self._users.find(self._credentials, self.user, self._scram)
        return credential

    def _token_credential(self) -> ScramCredential:
        found = self._find_token(self.user, self._scram)
        self._owner, self.expires_at_ms = found.owner, found.expires_at_ms
        self._is_known = found.owner is not None
        return found.credential

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise InvalidCredentials("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            told = "Invalid client nonce in the final client message."
            if match["nonce"].endswith(self._nonce):
                # Kafka refuses it since 3.8; the name of the culprit saves an hour.
                told += " librdkafka before 2.6.1 sends its nonce twice: update the client"
            raise InvalidCredentials(told)
        if b64decode(match["channel"]).decode("latin-1") not in (self._gs2, NO_CHANNEL_BINDING):
            raise InvalidCredentials("Invalid channel binding in the final client message")
        scram = self._scram
        without_proof = match["without_proof"].encode("latin-1")
        signed = b",".join((self._first_bare, self._server_first, without_proof))
        # A stand-in has no key that any proof fits.
        expected = credential.stored_key or bytes(len(scram.stored_key(b"")))
        proof, signature = b64decode(match["proof"]), scram.hmac(expected, signed)
        if len(proof) != len(signature):
            raise InvalidCredentials("Invalid client credentials: a proof of the wrong length")
        shown = scram.stored_key(xor(proof, signature))
        if not hmac.compare_digest(shown, expected) or not self._is_known:
            raise InvalidCredentials(
                "Invalid client credentials" if self._is_known else "Invalid user credentials"
            )
        if self._owner is not None:
            self.user = self._owner
        self.is_complete = True
        return b"v=" + b64encode(scram.hmac(credential.server_key, signed))


def _asks_for_token(extensions: str) -> bool:
    """True if the client sent `tokenauth=true`, as Kafka's clients with a delegation token do."""
    named = dict(part.split("=", 1) for part in extensions.split(",")[1:])
    return named.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
