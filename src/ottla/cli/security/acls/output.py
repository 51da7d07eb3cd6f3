"""ACLs as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.cli.output import print_table
from ottla.client.admin.acls import Acl


def as_dict(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def show(acls: Iterable[Acl]) -> None:
    print_table(
        ("resource", "name", "pattern", "principal", "permission", "operation", "host"),
        [
            (
                _word(acl.resource_type.name),
                acl.resource_name,
                _word(acl.pattern_type.name),
                acl.principal,
                _word(acl.permission.name),
                _word(acl.operation.name),
                acl.host,
            )
            for acl in acls
        ],
        spare=("host",),
    )


def _word(name: str) -> str:
    return name.replace("_", "-").lower()
