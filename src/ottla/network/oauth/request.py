"""The request for a token by client credentials (RFC 6749, 4.4), and its answer; pure."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode

from ottla.network.oauth.token import BadToken, HeldToken

if TYPE_CHECKING:
    from ottla.config.security.oauth_login import TokenEndpoint

ANSWER_BYTES_MAX: Final = 128 * 1024
_SHOWN_MAX: Final = 300
_FINAL_STATUSES: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)


def headers_of(endpoint: TokenEndpoint) -> dict[str, str]:
    client_id, secret = endpoint.client_id, endpoint.client_secret
    if endpoint.urlencodes:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    credentials = b64encode(f"{client_id}:{secret}".encode()).decode()
    return {
        "Authorization": f"Basic {credentials}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def body_of(endpoint: TokenEndpoint) -> bytes:
    fields = {"grant_type": "client_credentials"}
    if endpoint.scope:
        fields["scope"] = endpoint.scope
    return urlencode(fields).encode()


def token_in(answer: bytes) -> HeldToken:
    """Return the token of an answer; raises `BadToken`."""
    found = _json(answer)
    for name in ("access_token", "id_token"):
        text = found.get(name)
        if isinstance(text, str) and text.strip():
            return HeldToken.parse(text.strip())
    raise BadToken("the answer has no access_token")


def is_final(status: int) -> bool:
    """True if the same request would be refused again."""
    return status in _FINAL_STATUSES


def refusal(body: bytes, secret: str) -> str:
    """Return what a provider says about a refusal; empty if it says nothing."""
    try:
        found = _json(body)
    except BadToken:
        return ""
    said = []
    for name in ("error", "error_description", "errorCode", "errorSummary"):
        if isinstance(text := found.get(name), str):
            hidden = text.replace(secret, "[hidden]") if secret else text
            said.append("".join(one if one.isprintable() else "?" for one in hidden[:_SHOWN_MAX]))
    return ": ".join(said)


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadToken("the answer is not readable")
    return found
