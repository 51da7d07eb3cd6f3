"""The tokens of this process, by what they were got with: a process may make one client after the
other, as Spark's workers do for each task, and need not ask the provider each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.config.security.oauth_login import TokenEndpoint
    from ottla.network.oauth.token import HeldToken

TOKENS_MAX: Final = 100


class _Shared(NamedTuple):
    token: HeldToken
    refresh_at_ms: int


class SharedTokens:
    """Clients in several threads use it. The dictionary is replaced, never changed; at worst one of
    two that come at once is forgotten, and asked for again."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[object, ...], _Shared] = {}

    def find(self, endpoint: TokenEndpoint, now_ms: int) -> HeldToken | None:
        """Return a token that needs no replacement yet."""
        found = self._tokens.get(_key(endpoint))
        return found.token if found is not None and now_ms < found.refresh_at_ms else None

    def add(self, endpoint: TokenEndpoint, token: HeldToken, refresh_at_ms: int) -> None:
        key = _key(endpoint)
        others = [item for item in self._tokens.items() if item[0] != key]
        self._tokens = dict([*others[-TOKENS_MAX + 1 :], (key, _Shared(token, refresh_at_ms))])

    def forget(self, endpoint: TokenEndpoint, token: str) -> None:
        found = self._tokens.get(_key(endpoint))
        if found is not None and found.token.text == token:
            key = _key(endpoint)
            self._tokens = {one: held for one, held in self._tokens.items() if one != key}


def _key(endpoint: TokenEndpoint) -> tuple[object, ...]:
    """Whoever does not know the secret gets no token from here."""
    return (
        *(endpoint.url, endpoint.client_id, endpoint.client_secret, endpoint.scope),
        *(endpoint.urlencodes, endpoint.tls),
    )


SHARED_TOKENS: Final = SharedTokens()
