"""A principal: the identity that ACLs, quotas and delegation tokens refer to."""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class KafkaPrincipal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False
    """True if the client signed in with a delegation token: it may then not create another."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""A client that has not authenticated itself."""
