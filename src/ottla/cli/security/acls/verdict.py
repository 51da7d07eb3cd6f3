"""The verdict of ACLs on one question, decided here by the rules that brokers use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.cli.security.acls.selection import ANY_HOST
from ottla.client.admin.acls import Acl, AclOperation, AclResourceType
from ottla.security.acl_index import comparable_host
from ottla.security.acl_rules import AclRules, Reason, Verdict
from ottla.security.acls import EVERYBODY, AccessControlEntry
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, ResourceType

NOT_KNOWN: Final = {
    Reason.NO_MATCH: "super users may nevertheless",
    Reason.NO_ACLS: "super users may nevertheless; everybody may if "
    "allow.everyone.if.no.acl.found is true",
}
"""A reminder of what ACLs alone do not tell."""


def verdict_of(
    acls: Sequence[Acl],
    principal: str,
    host: str,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> Verdict:
    rules = AclRules()
    entries = {
        number.to_bytes(8, "big"): AccessControlEntry(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for number, acl in enumerate(acls)
    }
    for _ in rules.change(entries):
        pass
    rules.is_loaded = True
    user_type, _, user = principal.partition(":")
    return rules.verdict(
        KafkaPrincipal(user_type, user),
        comparable_host(host),
        Operation(operation),
        ResourceType(kind),
        name,
    )


def bound_to_addresses(
    acls: Sequence[Acl], principal: str, host: str, operation: AclOperation
) -> list[str]:
    """Return the addresses whose ACLs may decide otherwise, if the question named none."""
    if host != ANY_HOST:
        return []
    return sorted(
        {
            acl.host
            for acl in acls
            if acl.host != ANY_HOST
            and acl.principal in (principal, EVERYBODY)
            and acl.operation in (operation, AclOperation.ALL)
        }
    )
