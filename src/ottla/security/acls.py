"""ACLs: who may do what on which resources, from where; and filters that select ACLs."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.security.rights import Operation, PatternType, Permission, ResourceType

WILDCARD: Final = "*"
"""As the name of a literal resource: every resource of the type. As a host: every host."""
EVERYBODY: Final = "User:*"
"""The principal of ACLs for all users."""


class AccessControlEntry(NamedTuple):
    """An ACL. The numbers are those of Kafka's protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """Return it in the words of `ottla acls`."""
        permission = Permission(self.permission_type).name.lower()
        pattern = PatternType(self.pattern_type).name.lower()
        operation = Operation(self.operation).name
        resource = ResourceType(self.resource_type).name
        return (
            f"{permission} {self.principal} from {self.host} {operation} on "
            f"{resource} {pattern} {self.resource_name}"
        )


class AclFilter(NamedTuple):
    """Selects ACLs, as the requests that describe and delete them do. None and ANY match all.

    The pattern type MATCH selects what applies to the resource of this name: literal ACLs, those of
    the wildcard, and prefixed ones.
    """

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission_type: int = Permission.ANY

    @property
    def exact(self) -> AccessControlEntry | None:
        """The only ACL that this filter can match; None if there may be several."""
        name, principal, host = self.resource_name, self.principal, self.host
        if name is None or principal is None or host is None:
            return None
        if self.resource_type == ResourceType.ANY or self.operation == Operation.ANY:
            return None
        if self.permission_type == Permission.ANY:
            return None
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        return AccessControlEntry(
            self.resource_type,
            name,
            self.pattern_type,
            principal,
            host,
            self.operation,
            self.permission_type,
        )

    def matches(self, acl: AccessControlEntry) -> bool:
        return (
            (self.principal is None or self.principal == acl.principal)
            and (self.resource_type in (ResourceType.ANY, acl.resource_type))
            and (self.operation in (Operation.ANY, acl.operation))
            and (self.permission_type in (Permission.ANY, acl.permission_type))
            and (self.host is None or self.host == acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AccessControlEntry) -> bool:
        wanted, name = self.resource_name, acl.resource_name
        if self.pattern_type == PatternType.MATCH:
            if wanted is None:
                return True
            if acl.pattern_type == PatternType.PREFIXED:
                return wanted.startswith(name)
            return name in (wanted, WILDCARD)
        return self.pattern_type in (PatternType.ANY, acl.pattern_type) and wanted in (None, name)
