"""The rules of Kafka's StandardAuthorizer over ACLs that are found without a search.

ACLs are indexed by resource, and for each resource by principal. A decision looks at the literal
name, at the wildcard, and at one prefix of the name for each length that prefixed ACLs have.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.security.acls import EVERYBODY, WILDCARD, AccessControlEntry
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Allowing one of these operations allows the key, too. Denying it does not deny the key."""


class _Acl(NamedTuple):
    entry: AccessControlEntry
    host: str
    """The entry's host, in the form that callers' hosts have."""


_Acls = dict[bytes, _Acl]
"""By the id of the entry."""


class _Resource:
    """The ACLs of one resource name, or of one prefix."""

    __slots__ = ("by_principal",)

    def __init__(self) -> None:
        self.by_principal: dict[str, _Acls] = {}


class _Resources:
    """The resources of one type that have ACLs."""

    __slots__ = ("by_principal", "literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Resource] = {}
        self.prefixed: dict[str, _Resource] = {}
        self.prefix_lengths: dict[int, int] = {}
        """Length -> how many prefixes have it."""
        self.by_principal: dict[str, _Acls] = {}
        """The ACLs of all names, for questions about any name."""

    def with_acls_for(self, name: str) -> Iterator[_Resource]:
        """Return what applies to the resource of this name."""
        literal = self.literal
        if (named := literal.get(name)) is not None:
            yield named
        if name != WILDCARD and (wildcard := literal.get(WILDCARD)) is not None:
            yield wildcard
        prefixed = self.prefixed
        for length in self.prefix_lengths:
            if length <= len(name) and (found := prefixed.get(name[:length])) is not None:
                yield found


class Found(NamedTuple):
    """The verdict of the ACLs on a question."""

    acl: AccessControlEntry | None
    """The ACL that denies, or if none does, one that allows."""
    has_acls: bool
    """True if any ACL applies to the resource, whoever it is for."""


class AclIndex:
    def __init__(self) -> None:
        self._types: dict[int, _Resources] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, acl_id: bytes, acl: AccessControlEntry) -> None:
        resources = self._types.get(acl.resource_type)
        if resources is None:
            resources = self._types[acl.resource_type] = _Resources()
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        named = resources.prefixed if is_prefix else resources.literal
        resource = named.get(acl.resource_name)
        if resource is None:
            resource = named[acl.resource_name] = _Resource()
            if is_prefix:
                length = len(acl.resource_name)
                resources.prefix_lengths[length] = resources.prefix_lengths.get(length, 0) + 1
        indexed = _Acl(acl, comparable_host(acl.host))
        resource.by_principal.setdefault(acl.principal, {})[acl_id] = indexed
        resources.by_principal.setdefault(acl.principal, {})[acl_id] = indexed
        self._count += 1

    def remove(self, acl_id: bytes, acl: AccessControlEntry) -> None:
        """Remove an ACL that was added."""
        resources = self._types[acl.resource_type]
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        named = resources.prefixed if is_prefix else resources.literal
        resource = named[acl.resource_name]
        _forget(resource.by_principal, acl.principal, acl_id)
        _forget(resources.by_principal, acl.principal, acl_id)
        self._count -= 1
        if resource.by_principal:
            return
        del named[acl.resource_name]
        if is_prefix:
            length = len(acl.resource_name)
            resources.prefix_lengths[length] -= 1
            if not resources.prefix_lengths[length]:
                del resources.prefix_lengths[length]

    def find(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Found:
        """Return what decides whether the principal may do this."""
        resources = self._types.get(resource_type)
        if resources is None:
            return Found(None, has_acls=False)
        implying = _IMPLYING.get(operation, frozenset())
        allowing: AccessControlEntry | None = None
        has_acls = False
        for resource in resources.with_acls_for(name):
            has_acls = True
            for who in (principal, EVERYBODY):
                for acl in resource.by_principal.get(who, {}).values():
                    entry = acl.entry
                    if acl.host not in (WILDCARD, host):
                        continue
                    is_named = entry.operation in (operation, Operation.ALL)
                    if entry.permission_type == Permission.ALLOW:
                        if is_named or entry.operation in implying:
                            allowing = entry
                    elif is_named:
                        return Found(entry, has_acls=True)
        return Found(allowing, has_acls)

    def find_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> AccessControlEntry | None:
        """Return an ACL by which the principal may do this on a resource of whatever name: one that
        allows and is not dominated, that is made useless for all names, by one that denies. As in
        Kafka, implied operations do not count."""
        resources = self._types.get(resource_type)
        if resources is None:
            return None
        denied: tuple[set[str], set[str]] = (set(), set())
        allowing: list[AccessControlEntry] = []
        for who in (principal, EVERYBODY):
            for entry, from_host in resources.by_principal.get(who, {}).values():
                if from_host not in (WILDCARD, host):
                    continue
                if entry.operation not in (operation, Operation.ALL):
                    continue
                if entry.permission_type == Permission.ALLOW:
                    allowing.append(entry)
                elif _is_for_all(entry):
                    return None
                else:
                    is_prefix = entry.pattern_type == PatternType.PREFIXED
                    denied[is_prefix].add(entry.resource_name)
        for entry in allowing:
            if _is_for_all(entry):
                return entry
        literal, prefixed = denied
        lengths = {len(prefix) for prefix in prefixed}
        for entry in allowing:
            name = entry.resource_name
            if entry.pattern_type != PatternType.PREFIXED and name in literal:
                continue
            if not any(name[:length] in prefixed for length in lengths if length <= len(name)):
                return entry
        return None


def comparable_host(host: str) -> str:
    """Return IPv6 addresses in the form that callers' hosts have: there are several ways to write
    one, and Java's differs from that of others."""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _is_for_all(entry: AccessControlEntry) -> bool:
    return entry.pattern_type == PatternType.LITERAL and entry.resource_name == WILDCARD


def _forget(by_principal: dict[str, _Acls], principal: str, acl_id: bytes) -> None:
    acls = by_principal[principal]
    del acls[acl_id]
    if not acls:
        del by_principal[principal]
