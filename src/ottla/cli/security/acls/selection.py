"""Reads the options of `ottla acls`: the ACLs to add, and the filters that list and remove."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from itertools import product
from typing import Final, TypeAlias, TypeVar

import typer

from ottla.client.admin.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from ottla.security.rights import CLUSTER_NAME

ANY_HOST: Final = "*"
ANY_NAME: Final = "*"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

_PRODUCER: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_TRANSACTIONS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
_CONSUMER: Final = (AclOperation.READ, AclOperation.DESCRIBE)
_OPERATIONS: Final = {
    AclResourceType.TOPIC: (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE),
        *(AclOperation.DELETE, AclOperation.ALTER),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    AclResourceType.GROUP: (
        *(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    AclResourceType.CLUSTER: (
        *(AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS),
        *(AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
        *(AclOperation.ALTER, AclOperation.DESCRIBE),
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        *(AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    ),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that Kafka's tool accepts for each type of resource, besides ALL."""

E = TypeVar("E", AclOperation, AclPatternType)


Names: TypeAlias = Sequence[str] | None
"""The values of an option that may be repeated."""


@dataclass(frozen=True)
class Resources:
    """The resources that were named, in the order of the options."""

    topics: Names = None
    groups: Names = None
    transactional_ids: Names = None
    tokens: Names = None
    users: Names = None
    cluster: bool = False

    def __iter__(self) -> Iterator[tuple[AclResourceType, str]]:
        for kind, names in (
            (AclResourceType.TOPIC, self.topics),
            (AclResourceType.GROUP, self.groups),
            (AclResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (AclResourceType.DELEGATION_TOKEN, self.tokens),
            (AclResourceType.USER, self.users),
        ):
            for name in names or ():
                yield kind, name
        if self.cluster:
            yield AclResourceType.CLUSTER, CLUSTER_NAME


@dataclass(frozen=True)
class Who:
    """The principals and hosts that were named, in the order of the options."""

    allowed: Names = None
    denied: Names = None
    allowed_hosts: Names = None
    denied_hosts: Names = None

    def entries(self) -> Iterator[tuple[AclPermission, str, str]]:
        """Return permission, principal and host of each."""
        for permission, principals, hosts in (
            (AclPermission.ALLOW, self.allowed, self.allowed_hosts),
            (AclPermission.DENY, self.denied, self.denied_hosts),
        ):
            for principal, host in product(principals or (), hosts or (ANY_HOST,)):
                yield permission, principal, host


def check_who(who: Who) -> None:
    for option, principals, hosts in (
        ("allow", who.allowed, who.allowed_hosts),
        ("deny", who.denied, who.denied_hosts),
    ):
        for principal in principals or ():
            check_principal(principal, f"--{option}")
        if hosts and not principals:
            raise typer.BadParameter(f"--{option}-host needs --{option}")


def check_principal(principal: str, option: str) -> None:
    if ":" not in principal:
        raise typer.BadParameter(
            f"{principal!r} is no principal: expected User:NAME", param_hint=option
        )


def check_hosts(who: Who) -> None:
    """Refuse names and networks: brokers compare addresses, so such an ACL would match nobody."""
    for host in [*(who.allowed_hosts or ()), *(who.denied_hosts or ())]:
        if host == ANY_HOST:
            continue
        try:
            ip_address(host)
        except ValueError:
            raise typer.BadParameter(
                f"{host!r} is no IP address: an ACL is for one address, or for all by *"
            ) from None


def address_of(host: str) -> str:
    """Return an address as brokers compare it; any other host, except "*", is refused."""
    if host == ANY_HOST:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        raise typer.BadParameter(f"--host: {host!r} is no IP address") from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or host)


def check_names(resources: Resources, pattern: AclPatternType) -> None:
    """Refuse names that no resource can have."""
    for kind, name in resources:
        if pattern == AclPatternType.PREFIXED and name == ANY_NAME:
            raise typer.BadParameter(
                "a prefixed * is for names that begin with *: without --pattern, * is for all names"
            )
        if kind == AclResourceType.TOPIC and name != ANY_NAME and not _TOPIC.fullmatch(name):
            raise typer.BadParameter(
                f"no topic can have the name {name!r}: letters, digits, . _ - and 249 at most"
            )


def operation_named(text: str) -> AclOperation:
    """Return an operation by its name in any of Kafka's spellings: `DescribeConfigs`,
    `describe_configs`, `DESCRIBE_CONFIGS`."""
    return _named(AclOperation, text, "--operation")


def pattern_named(text: str) -> AclPatternType:
    return _named(AclPatternType, text, "--pattern")


def _named(kind: type[E], text: str, option: str) -> E:
    wanted = text.replace("_", "").replace("-", "").lower()
    for one in kind:
        if one.name.replace("_", "").lower() == wanted:
            return one
    known = ", ".join(one.name.replace("_", "-").lower() for one in kind)
    raise typer.BadParameter(f"{text!r} is none of {known}", param_hint=option)


def acls_wanted(
    resources: Resources,
    who: Who,
    operations: Names,
    pattern: AclPatternType,
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> list[Acl]:
    """Return the ACLs to add: of roles, or of operations, which are all if none is named."""
    if producer or consumer or idempotent:
        check_role(
            resources,
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
            has_operations=bool(operations),
            has_denials=bool(who.denied),
        )
        return acls_of_role(
            resources, who, pattern, producer=producer, consumer=consumer, idempotent=idempotent
        )
    named = list(map(operation_named, operations or ("all",)))
    if AclOperation.ANY in named:
        raise typer.BadParameter("an ACL is for one operation, or for all")
    wanted = acls_to_add(resources, who, named, pattern)
    if not wanted:
        raise typer.BadParameter("name a resource: --topic, --group, --cluster, ...")
    return wanted


def acls_to_add(
    resources: Resources,
    who: Who,
    operations: Sequence[AclOperation],
    pattern: AclPatternType,
) -> list[Acl]:
    for (kind, name), operation in product(resources, operations):
        if operation is not AclOperation.ALL and operation not in _OPERATIONS[kind]:
            known = ", ".join(_shown(one) for one in _OPERATIONS[kind])
            raise typer.BadParameter(
                f"there is no {_shown(operation)} on {_shown(kind)} {name}: {known}, all",
                param_hint="--operation",
            )
    return [
        Acl(kind, name, principal, operation, permission, pattern, host)
        for (kind, name), operation, (permission, principal, host) in product(
            resources, operations, who.entries()
        )
    ]


def _shown(value: AclOperation | AclResourceType) -> str:
    return value.name.replace("_", "-").lower()


def acls_of_role(
    resources: Resources,
    who: Who,
    pattern: AclPatternType,
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> list[Acl]:
    """Return the ACLs that producers or consumers of these resources need, as in Kafka's tool."""
    found: list[Acl] = []

    def add(named: Resources, operations: Sequence[AclOperation], kind: AclPatternType) -> None:
        found.extend(acls_to_add(named, who, operations, kind))

    topics = Resources(topics=resources.topics)
    if producer:
        add(topics, _PRODUCER, pattern)
        ids = Resources(transactional_ids=resources.transactional_ids)
        add(ids, _TRANSACTIONS, pattern)
        if idempotent:
            add(
                Resources(cluster=True),
                (AclOperation.IDEMPOTENT_WRITE,),
                AclPatternType.LITERAL,
            )
    if consumer:
        add(topics, _CONSUMER, pattern)
        add(Resources(groups=resources.groups), (AclOperation.READ,), pattern)
    return list(dict.fromkeys(found))


def check_role(
    resources: Resources,
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
    has_operations: bool,
    has_denials: bool,
) -> None:
    if has_operations:
        raise typer.BadParameter("--producer and --consumer imply their operations")
    if has_denials:
        raise typer.BadParameter("--producer and --consumer only allow: name what is denied")
    if not resources.topics:
        raise typer.BadParameter("--producer and --consumer need --topic")
    if consumer and not resources.groups:
        raise typer.BadParameter("--consumer needs --group")
    if idempotent and not producer:
        raise typer.BadParameter("--idempotent needs --producer")
    foreign = resources.cluster or resources.tokens or resources.users
    if foreign or (resources.groups and not consumer):
        raise typer.BadParameter(
            "--producer and --consumer are for topics, groups and transactions"
        )


def filters_of(
    resources: Resources,
    who: Who,
    principals: Sequence[str],
    operations: Sequence[AclOperation],
    pattern: AclPatternType,
) -> list[AclFilter]:
    """Return the filters for ACLs of any of these resources, principals and operations; what is not
    named is of any kind."""
    entries: list[tuple[AclPermission, str | None, str | None]] = [
        (permission, principal, host if hosts else None)
        for permission, principal, host in who.entries()
        for hosts in [who.allowed_hosts if permission is AclPermission.ALLOW else who.denied_hosts]
    ]
    entries += [(AclPermission.ANY, principal, None) for principal in principals]
    named: list[tuple[AclResourceType, str | None]] = list(resources)
    return [
        AclFilter(kind, name, principal, operation, permission, pattern, host)
        for (kind, name), operation, (permission, principal, host) in product(
            named or [(AclResourceType.ANY, None)],
            operations or [AclOperation.ANY],
            entries or [(AclPermission.ANY, None, None)],
        )
    ]
