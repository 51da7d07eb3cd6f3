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

    @classmethod
    def parse(cls, text: str) -> KafkaPrincipal:
        """Return the principal of `User:alice`; raises `ValueError`."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected type:name, as in User:alice, got {text!r}")
        return cls(kind, name)


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""A client that has not authenticated itself."""
