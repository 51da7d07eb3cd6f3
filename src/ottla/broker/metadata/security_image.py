"""The part of the metadata about who may do what, and how much of it: ACLs, SCRAM credentials,
delegation tokens, client quotas.

Each map is copied only when it changes, so that a reader may keep what it derived from a map until
the next image has another object there. No `repr` shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ottla.security.principal import KafkaPrincipal


class ScramCredential(NamedTuple):
    """Keys that check a user's password, which cannot be derived from them."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ...)"


class DelegationToken(NamedTuple):
    """A token by which `owner` signs in. Its password is derived from its id and the cluster's
    secret key, and is not stored."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_timestamp_ms, self.expiration_timestamp_ms) < now_ms

    def belongs_to(self, principal: KafkaPrincipal) -> bool:
        """True for the owner and the renewers."""
        name = str(principal)
        return name == self.owner or name in self.renewers


ScramUser: TypeAlias = tuple[str, int]
"""User name and mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class QuotaKey(StrEnum):
    """Kafka's keys of client quotas."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """A quota of addresses; the other keys are of users and client ids."""


QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of entity type (USER, CLIENT_ID, IP) and name, sorted by type; None is the default entity
of the type."""
Quotas: TypeAlias = Mapping[str, float]
"""Kafka's quota key -> its bound."""


def quota_entity(parts: Iterable[Any]) -> QuotaEntity:
    """Return the entity of a message or record that has `entity_type` and `entity_name` of each
    part. Of two parts of the same type the last one counts, as in Kafka."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items()))
