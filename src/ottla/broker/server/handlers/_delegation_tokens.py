"""Decides who may ask for delegation tokens at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.caller import PLAINTEXT
from ottla.protocol.errors import ErrorCode
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.server.caller import Caller

_TLS: Final = "SSL"
NO_TIME: Final = -1
NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
REQUESTER_FROM: Final = 3
"""Older versions of requests and answers do not name who asked for a token."""


def may_request_tokens(caller: Caller) -> bool:
    """True if the client proved who it is, by other means than a token: a stolen token must not be
    good for another one."""
    if caller.principal.token_authenticated:
        return False
    if caller.is_forwarded:
        return True
    protocol = caller.security_protocol
    return protocol != PLAINTEXT and (protocol != _TLS or caller.principal != ANONYMOUS)
