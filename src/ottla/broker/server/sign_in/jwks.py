"""The keys of an identity provider (JWKS): read in the background, and kept.

They are read again at intervals, after a failure, and when a token names a key that is not among
them, then at most every ten seconds: a flood of such tokens is no flood for the provider.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from ottla.broker.server.sign_in.mechanisms import NotReady
from ottla.broker.server.sign_in.oauth import InvalidToken
from ottla.logs import get_logger
from ottla.network.oauth.provider_context import provider_context
from ottla.runtime.fetch_url import CannotFetch, Fetch
from ottla.runtime.tls.socket import BadTlsFile

if TYPE_CHECKING:
    from ottla.config.security.oauth import ProviderKeys
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.network")

ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]
"""Signatures with a private key only: neither none, nor a secret that the public key might be."""
DOCUMENT_BYTES_MAX: Final = 1024 * 1024
KEYS_MAX: Final = 1_000
UNKNOWN_KEY_INTERVAL_S: Final = 10.0
_UNREADABLE: Final = (
    *(JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError),
)


class Jwks:
    def __init__(self, runtime: Runtime, settings: ProviderKeys) -> None:
        self._runtime = runtime
        self._settings = settings
        self._keys: KeySet | None = None
        self._wanted = asyncio.Event()
        """Set when a token names an unknown key."""
        self._read_at_s = 0.0

    def start(self) -> None:
        self._runtime.spawn(self._keep_reading(), name="read-jwks")

    def verified(self, token: str) -> Mapping[str, Any]:
        if self._keys is None:
            raise NotReady("the keys of the provider could not be read yet")
        try:
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS).claims
        except InvalidKeyIdError:
            self._wanted.set()
            raise InvalidToken("it is signed with a key that the provider does not have") from None
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise InvalidToken(f"its signature is not valid ({error})") from None

    async def _keep_reading(self) -> None:
        settings = self._settings
        retry_ms = settings.retry_ms
        while True:
            self._wanted.clear()
            self._read_at_s = self._runtime.clock.now()
            try:
                self._keys = await self._fetched()
            except CannotFetch as error:
                log.error("cannot read the keys of the identity provider", reason=str(error))
                await asyncio.sleep(retry_ms / 1000)
                retry_ms = min(2 * retry_ms, settings.retry_max_ms)
                continue
            retry_ms = settings.retry_ms
            try:
                async with asyncio.timeout(settings.refresh_ms / 1000):
                    await self._wanted.wait()
                    since_s = self._runtime.clock.now() - self._read_at_s
                    await asyncio.sleep(max(0.0, UNKNOWN_KEY_INTERVAL_S - since_s))
            except TimeoutError:
                pass

    async def _fetched(self) -> KeySet:
        settings = self._settings
        fetch = Fetch(
            settings.url,
            bytes_max=DOCUMENT_BYTES_MAX,
            context=lambda: provider_context(settings.tls),
        )
        try:
            return await self._runtime.in_thread(self._read, fetch)
        except asyncio.CancelledError:
            fetch.abort()
            raise

    def _read(self, fetch: Fetch) -> KeySet:
        url = self._settings.url
        try:
            document = fetch.run()
        except BadTlsFile as error:
            raise CannotFetch(str(error)) from error
        try:
            found = json.loads(document)["keys"]
            usable = [key for key in found[:KEYS_MAX] if key.get("kty") in ("RSA", "EC", "OKP")]
            return KeySet.import_key_set({"keys": usable})
        except (
            JoseError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
        ) as error:
            raise CannotFetch(f"{url} is no set of keys: {error!r}") from error
