"""Settings of the authorizer. Kafka passes those of its StandardAuthorizer on undeclared."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ottla.config.errors import Problem
from ottla.config.listeners import Listener

CLASS_KEY: Final = "authorizer.class.name"
SUPER_USERS_KEY: Final = "super.users"
ALLOW_KEY: Final = "allow.everyone.if.no.acl.found"
EARLY_KEY: Final = "early.start.listeners"
AUTHORIZER_KEYS: Final = frozenset({SUPER_USERS_KEY, ALLOW_KEY})
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BUILDER_KEY: Final = "principal.builder.class"
PRINCIPAL_BUILDER: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)
_ANONYMOUS: Final = "User:ANONYMOUS"


class Authorization(NamedTuple):
    super_users: frozenset[str]
    """Principals as they are written in ACLs: `User:name`."""
    allow_if_no_acl: bool
    """True if everybody may use resources that have no ACLs."""

    @property
    def trusts_anonymous(self) -> bool:
        """True if clients that did not sign in may do everything, as long as there are no ACLs."""
        return self.allow_if_no_acl or _ANONYMOUS in self.super_users


def authorization_of(
    values: Mapping[str, Any], explicit: Mapping[str, str]
) -> Authorization | None:
    """Return None without an authorizer: everybody may do everything."""
    if not values[CLASS_KEY]:
        return None
    allow = explicit.get(ALLOW_KEY, "").strip().lower() == "true"
    return Authorization(frozenset(_super_users(explicit)), allow)


def _super_users(explicit: Mapping[str, str]) -> Iterator[str]:
    return filter(None, map(str.strip, explicit.get(SUPER_USERS_KEY, "").split(";")))


def authorization_problems(
    values: Mapping[str, Any], explicit: Mapping[str, str]
) -> Iterator[Problem]:
    yield from principal_builder_problems({BUILDER_KEY: values[BUILDER_KEY]})
    for key in explicit:
        if key.startswith("listener.name.") and key.endswith(f".{BUILDER_KEY}"):
            yield from principal_builder_problems({key: explicit[key]})
    name = values[CLASS_KEY]
    if not name:
        return
    if name != STANDARD_AUTHORIZER:
        yield Problem(CLASS_KEY, name, f"the only authorizer here is {STANDARD_AUTHORIZER}")
    for user in _super_users(explicit):
        if ":" not in user:
            expected = "expected principals as User:name, with semicolons between them"
            yield Problem(SUPER_USERS_KEY, user, expected)


def principal_builder_problems(given: Mapping[str, str]) -> Iterator[Problem]:
    """Refuse classes that would give clients other names than this broker does."""
    for key, value in given.items():
        if value != PRINCIPAL_BUILDER:
            yield Problem(key, value, f"the only class here is {PRINCIPAL_BUILDER}")


def early_listener_problems(
    values: Mapping[str, Any], listeners: tuple[Listener, ...]
) -> Iterator[Problem]:
    known = {name.upper() for name in values["controller.listener.names"] or ()}
    known |= {listener.name for listener in listeners}
    for name in values[EARLY_KEY] or ():
        if name.upper() not in known:
            expected = "must be one of listeners or of controller.listener.names"
            yield Problem(EARLY_KEY, name, expected)
