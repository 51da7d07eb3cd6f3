"""Admin calls for ACLs: which principals may do what to topics, groups and the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import error_of, raise_for
from ottla.protocol.errors import KafkaError


class AclResourceType(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    ANY = 1
    """In filters: any pattern type."""
    MATCH = 2
    """In filters: every ACL that applies to the named resource."""
    LITERAL = 3
    """Exactly this name; `*` matches every name."""
    PREFIXED = 4
    """All names with this prefix."""


class AclOperation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """An ACL: Acl(AclResourceType.TOPIC, "payments", "User:alice", AclOperation.READ)."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    pattern_type: AclPatternType = AclPatternType.LITERAL
    host: str = "*"


class AclFilter(NamedTuple):
    """Selects the ACLs that match every field given here; None and ANY match everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    pattern_type: AclPatternType = AclPatternType.ANY
    host: str | None = None


ALL_ACLS = AclFilter()


class AclAdmin:
    _link: AdminLink

    async def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """Add ACLs and return an error or None for each. Adding an existing ACL is no error."""
        from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest

        wanted = list(dict.fromkeys(acls))
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in wanted
        ]
        response = await self._link.change(lambda _: CreateAclsRequest(creations=creations))
        return {
            acl: error_of(result.error_code, result.error_message)
            for acl, result in zip(wanted, response.results, strict=True)
        }

    async def describe_acls(self, matching: AclFilter = ALL_ACLS) -> list[Acl]:
        """Return the ACLs that match the filter; without a filter, all ACLs."""
        from ottla.protocol.messages.describe_acls import DescribeAclsRequest

        response = await self._link.ask_any(DescribeAclsRequest(**_filter(matching)))
        raise_for(response.error_code, response.error_message)
        return sorted(
            _acl(resource, acl) for resource in response.resources for acl in resource.acls
        )

    async def delete_acls(
        self, matching: Iterable[AclFilter]
    ) -> dict[AclFilter, list[Acl] | KafkaError]:
        """Delete the ACLs that match, and return the deleted ACLs of each filter."""
        from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

        wanted = list(dict.fromkeys(matching))
        filters = [DeleteAclsFilter(**_filter(one)) for one in wanted]
        response = await self._link.change(lambda _: DeleteAclsRequest(filters=filters))
        return {
            one: error_of(result.error_code, result.error_message) or _deleted(result)
            for one, result in zip(wanted, response.filter_results, strict=True)
        }


def _filter(matching: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": matching.resource_type,
        "resource_name_filter": matching.resource_name,
        "pattern_type_filter": matching.pattern_type,
        "principal_filter": matching.principal,
        "host_filter": matching.host,
        "operation": matching.operation,
        "permission_type": matching.permission,
    }


def _deleted(result: Any) -> list[Acl] | KafkaError:
    for one in result.matching_acls:
        if error := error_of(one.error_code, one.error_message):
            return error
    return sorted(_acl(one, one) for one in result.matching_acls)


def _acl(resource: Any, found: Any) -> Acl:
    return Acl(
        AclResourceType(resource.resource_type),
        resource.resource_name,
        found.principal,
        AclOperation(found.operation),
        AclPermission(found.permission_type),
        AclPatternType(resource.pattern_type),
        found.host,
    )
