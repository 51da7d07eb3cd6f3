"""Keeps one token for all connections of a client, or of a node: gets it when it is first needed,
and a fresh one in the background before it expires."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final

from ottla.logs import get_logger
from ottla.network.oauth.provider_context import provider_context
from ottla.network.oauth.refreshing import refresh_at_ms
from ottla.network.oauth.request import (
    ANSWER_BYTES_MAX,
    body_of,
    headers_of,
    is_final,
    refusal,
    token_in,
)
from ottla.network.oauth.shared import SHARED_TOKENS
from ottla.network.oauth.token import TOKEN_BYTES_MAX, BadToken, HeldToken
from ottla.network.sasl_mechanisms import NoToken
from ottla.runtime.fetch_url import CannotFetch, Fetch
from ottla.runtime.tls.socket import BadTlsFile

if TYPE_CHECKING:
    from ottla.config.security.oauth_login import TokenEndpoint
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.network")

REFRESH_PAUSE_S: Final = 10.0
"""After a failure to get a fresh token, while the old one is still good."""
FAILURE_KEPT_S: Final = 1.0
DISCARD_INTERVAL_S: Final = 10.0
"""Bounds how often the provider is asked where brokers refuse its tokens."""
LOG_INTERVAL_S: Final = 30.0


class TokenSource:
    """Belongs to the runtime that it is first used with, which ends its task."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token: HeldToken | None = None
        self._waiting: asyncio.Future[None] | None = None
        """Done when the first attempt is, or the first after a token has expired."""
        self._is_keeping = False
        self._hurry = asyncio.Event()
        """Set when somebody waits for a token."""
        self._failure: NoToken | None = None
        self._failed_at_s = -inf
        self._next_log_s = -inf
        self._next_discard_s = -inf
        self._refresh_at_ms = 0

    async def token(self, runtime: Runtime) -> str:
        """Return a token that has not expired; raises `NoToken`."""
        if (held := self._valid(runtime)) is not None:
            return held.text
        if self._failure is not None:
            if runtime.clock.now() < self._failed_at_s + FAILURE_KEPT_S:
                raise self._failure
            self._failure = None
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        if not self._is_keeping:
            self._is_keeping = True
            runtime.spawn(self._keep(runtime), name="keep-token")
        self._hurry.set()
        await asyncio.shield(self._waiting)
        if (held := self._valid(runtime)) is None:
            raise self._failure or NoToken("it has expired", is_final=False)
        return held.text

    def discard(self, runtime: Runtime, token: str) -> None:
        """Get another token next time: a broker has refused this one, before it expired."""
        SHARED_TOKENS.forget(self._endpoint, token)
        now_s = runtime.clock.now()
        if self._token is not None and self._token.text == token and now_s >= self._next_discard_s:
            self._next_discard_s = now_s + DISCARD_INTERVAL_S
            self._token = None

    def _valid(self, runtime: Runtime) -> HeldToken | None:
        held = self._token
        return held if held and held.expires_at_ms > runtime.clock.wall_ms() else None

    async def _keep(self, runtime: Runtime) -> None:
        """Ends when there is no token: whoever needs one begins again."""
        try:
            while True:
                self._hurry.clear()
                try:
                    token = await self._next(runtime)
                except NoToken as error:
                    self._failed(runtime, error)
                    if self._valid(runtime) is None:
                        return
                    await self._pause(REFRESH_PAUSE_S)
                    continue
                self._token = token
                self._failure = None
                self._wake()
                await self._pause((self._refresh_at_ms - runtime.clock.wall_ms()) / 1000)
        finally:
            self._is_keeping = False
            self._wake()

    async def _next(self, runtime: Runtime) -> HeldToken:
        """Return a token that another client of this process has got, or a new one."""
        endpoint = self._endpoint
        found = None
        if self._token is None and not endpoint.is_file:
            found = SHARED_TOKENS.find(endpoint, runtime.clock.wall_ms())
        token = found or await self._retrieve(runtime)
        now_ms, chance = runtime.clock.wall_ms(), runtime.random.random()
        self._refresh_at_ms = refresh_at_ms(token, endpoint.refresh, now_ms, chance)
        if found is None and not endpoint.is_file:
            SHARED_TOKENS.add(endpoint, token, self._refresh_at_ms)
        return token

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _failed(self, runtime: Runtime, error: NoToken) -> None:
        now_s = runtime.clock.now()
        self._failure, self._failed_at_s = error, now_s
        if now_s >= self._next_log_s:
            self._next_log_s = now_s + LOG_INTERVAL_S
            log.error("cannot get a token of the identity provider", reason=str(error))

    async def _retrieve(self, runtime: Runtime) -> HeldToken:
        """Try again after failures that may pass, for `sasl.login.retry.backoff.max.ms`."""
        endpoint = self._endpoint
        ends_at_s = runtime.clock.now() + endpoint.retry_max_ms / 1000
        pause_ms = endpoint.retry_ms
        while True:
            try:
                token = await self._attempt(runtime)
                if token.expires_at_ms > runtime.clock.wall_ms():
                    return token
                raise NoToken("the token has expired already; is a clock wrong?", is_final=False)
            except NoToken as error:
                if error.is_final or endpoint.is_file or runtime.clock.now() >= ends_at_s:
                    raise
            left_s = ends_at_s - runtime.clock.now()
            await asyncio.sleep(max(0.0, min(pause_ms / 1000, left_s)))
            pause_ms = min(2 * max(pause_ms, 1), endpoint.retry_max_ms)

    async def _attempt(self, runtime: Runtime) -> HeldToken:
        fetch = self._fetch()
        try:
            answer = await runtime.in_thread(fetch.run)
        except CannotFetch as error:
            said = refusal(error.body, self._endpoint.client_secret)
            reason = f"{error} ({said})" if said else str(error)
            raise NoToken(reason, is_final=is_final(error.status)) from None
        except BadTlsFile as error:
            raise NoToken(str(error), is_final=True) from None
        except asyncio.CancelledError:
            fetch.abort()
            raise
        try:
            if self._endpoint.is_file:
                return HeldToken.parse(answer.decode("utf-8", "replace").strip())
            return token_in(answer)
        except BadToken as error:
            raise NoToken(f"{self._endpoint.url}: {error}", is_final=False) from None

    def _fetch(self) -> Fetch:
        endpoint = self._endpoint
        if endpoint.is_file:
            return Fetch(endpoint.url, bytes_max=TOKEN_BYTES_MAX)
        return Fetch(
            endpoint.url,
            bytes_max=ANSWER_BYTES_MAX,
            connect_s=endpoint.connect_ms / 1000,
            answer_s=endpoint.read_ms / 1000,
            headers=headers_of(endpoint),
            body=body_of(endpoint),
            context=lambda: provider_context(endpoint.tls),
        )
