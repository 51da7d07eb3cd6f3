"""Finds the quota that counts for a client, among those of users and client ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.broker.metadata.security_image import CLIENT_ID, USER, QuotaEntity, QuotaKey, Quotas

AllQuotas = Mapping[QuotaEntity, Quotas]


NAME_KEPT_MAX: Final = 256
"""The most characters of a name of which a budget is kept; a client id may have 32,767."""


class Tags(NamedTuple):
    """Clients of the same tags share a budget. Kafka's metrics have these tags."""

    user: str
    """Empty if the budget is shared by all users of the client id."""
    client_id: str
    """Empty if the budget is shared by all client ids of the user."""


def labels_of(tags: Tags) -> dict[str, str]:
    """Return the tags as Kafka's metrics name them."""
    return {"user": tags.user, "client-id": tags.client_id}


class Bound(NamedTuple):
    tags: Tags
    limit: float


def bound_of(quotas: AllQuotas, key: QuotaKey, user: str, client_id: str) -> Bound | None:
    """Return what limits a client, or None if nothing does. A client id that is not given is
    empty."""
    tags = _tags_of(quotas, key, user, client_id)
    if tags is None:
        return None
    for entity in _entities_of(tags):
        limit = quotas.get(entity, {}).get(key)
        if limit is not None:
            return Bound(Tags(_handy(tags.user), _handy(tags.client_id)), limit)
    return None


def _handy(name: str) -> str:
    """Return the name, or what stands for it if it is too long to be kept by the thousand."""
    if len(name) <= NAME_KEPT_MAX:
        return name
    import hashlib  # no broker needs it for its start

    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: NAME_KEPT_MAX // 2]}...{digest}"


def _tags_of(quotas: AllQuotas, key: QuotaKey, user: str, client_id: str) -> Tags | None:
    of_both, of_user, of_client_id = Tags(user, client_id), Tags(user, ""), Tags("", client_id)
    for entity, tags in (
        (_both(user, client_id), of_both),
        (_both(user, None), of_both),
        (_user(user), of_user),
        (_both(None, client_id), of_both),
        (_both(None, None), of_both),
        (_user(None), of_user),
        (_client_id(client_id), of_client_id),
        (_client_id(None), of_client_id),
    ):
        if key in quotas.get(entity, {}):
            return tags
    return None


def _entities_of(tags: Tags) -> tuple[QuotaEntity, ...]:
    """Return the entities whose quota counts for these tags, the first one first. As in Kafka, a
    client without a client id has no quota of the default client id."""
    user, client_id = tags
    if user and client_id:
        return (
            _both(user, client_id),
            _both(user, None),
            _both(None, client_id),
            _both(None, None),
        )
    if user:
        return _user(user), _user(None)
    if client_id:
        return _client_id(client_id), _client_id(None)
    return ()


def _both(user: str | None, client_id: str | None) -> QuotaEntity:
    return (CLIENT_ID, client_id), (USER, user)


def _user(user: str | None) -> QuotaEntity:
    return ((USER, user),)


def _client_id(client_id: str | None) -> QuotaEntity:
    return ((CLIENT_ID, client_id),)
