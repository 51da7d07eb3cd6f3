"""Creates and deletes ACLs."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypeAlias

from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_acls import AclCreation
from ottla.protocol.messages.delete_acls import DeleteAclsFilter
from ottla.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from ottla.protocol.schema import Message
from ottla.protocol.uuids import random_uuid
from ottla.security.acls import AccessControlEntry, AclFilter
from ottla.security.rights import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

DELETED_MAX: Final = 10_000
"""The most ACLs that one request deletes, as in Kafka."""
LISTED_MAX: Final = 50_000
"""The most ACLs in the answer to one deletion: filters may match the same ones."""


class NewAcl(NamedTuple):
    """An ACL to create, if it does not exist."""

    acl: AccessControlEntry
    record: AccessControlEntryRecord


class FoundAcl(NamedTuple):
    id: bytes
    acl: AccessControlEntry


Deleted: TypeAlias = "list[AccessControlEntry] | KafkaError"
"""The ACLs that a filter deleted, or why it is refused."""


# --- creating -----------------------------------------------------------------------------------


def checked(
    creations: Iterable[AclCreation], random: Random
) -> Generator[None, None, list[NewAcl | KafkaError]]:
    """Return what to create, or why not, in steps."""
    asked: list[NewAcl | KafkaError] = []
    for creation in creations:
        acl = AccessControlEntry(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        problem = _problem(acl)
        if problem is None:
            record = AccessControlEntryRecord(id=random_uuid(random), **acl._asdict())
            asked.append(NewAcl(acl, record))
        else:
            asked.append(KafkaError(ErrorCode.INVALID_REQUEST, problem))
        yield
    return asked


def create_acls(
    image: MetadataImage, asked: Sequence[NewAcl | KafkaError]
) -> Decision[list[KafkaError | None]]:
    """Create ACLs. One that exists is no error."""
    new: dict[AccessControlEntry, Message] = {}
    outcomes: list[KafkaError | None] = []
    for one in asked:
        if isinstance(one, KafkaError):
            outcomes.append(one)
            continue
        if one.acl not in image.acl_ids:
            new.setdefault(one.acl, one.record)
        outcomes.append(None)
    return Decision(list(new.values()), outcomes)


def _problem(acl: AccessControlEntry) -> str | None:
    """Return why this is no valid ACL, in Kafka's words and order."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    resource_type = _known(ResourceType, acl.resource_type)
    if resource_type in ("UNKNOWN", "ANY"):
        return f"Invalid resourceType {resource_type}"
    pattern_type = _known(PatternType, acl.pattern_type)
    if pattern_type not in ("LITERAL", "PREFIXED"):
        return f"Invalid patternType {pattern_type}"
    operation = _known(Operation, acl.operation)
    if operation in ("UNKNOWN", "ANY"):
        return f"Invalid operation {operation}"
    permission = _known(Permission, acl.permission_type)
    if permission not in ("ALLOW", "DENY"):
        return f"Invalid permissionType {permission}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return None


_Kind = type[ResourceType] | type[PatternType] | type[Operation] | type[Permission]


def _known(kind: _Kind, number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return "UNKNOWN"


# --- deleting -----------------------------------------------------------------------------------


def matching(
    acls: Mapping[bytes, AccessControlEntry],
    ids: Mapping[AccessControlEntry, bytes],
    filters: Sequence[DeleteAclsFilter],
) -> Generator[None, None, list[list[FoundAcl] | KafkaError]]:
    """Return in steps what each filter matches, or why it is refused. Raises `KafkaError` if it is
    too much for one request."""
    found: list[list[FoundAcl] | KafkaError] = []
    searching: list[tuple[AclFilter, list[FoundAcl]]] = []
    for asked in filters:
        if (problem := _filter_problem(asked)) is not None:
            found.append(KafkaError(ErrorCode.INVALID_REQUEST, problem))
            continue
        wanted = AclFilter(
            asked.resource_type_filter,
            asked.resource_name_filter,
            asked.pattern_type_filter,
            asked.principal_filter,
            asked.host_filter,
            asked.operation,
            asked.permission_type,
        )
        matches: list[FoundAcl] = []
        found.append(matches)
        exact = wanted.exact
        if exact is None:
            searching.append((wanted, matches))
        elif (acl_id := ids.get(exact)) is not None:
            matches.append(FoundAcl(acl_id, exact))
        yield
    count = removed = 0
    for acl_id, acl in acls.items() if searching else ():
        before = count
        for wanted, matches in searching:
            if wanted.matches(acl):
                matches.append(FoundAcl(acl_id, acl))
                count += 1
            yield
        removed += count > before
        if removed > DELETED_MAX or count > LISTED_MAX:
            raise _too_many()
    return found


def delete_acls(
    image: MetadataImage, found: Collection[list[FoundAcl] | KafkaError]
) -> Decision[list[Deleted]]:
    """Delete the ACLs of `matching` that still exist."""
    removed: dict[bytes, Message] = {}
    outcomes: list[Deleted] = []
    for matches in found:
        if isinstance(matches, KafkaError):
            outcomes.append(matches)
            continue
        still = [one for one in matches if one.id in image.acls]
        for one in still:
            removed.setdefault(one.id, RemoveAccessControlEntryRecord(id=one.id))
        outcomes.append([one.acl for one in still])
    if len(removed) > DELETED_MAX:
        raise _too_many()
    return Decision(list(removed.values()), outcomes)


def _too_many() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Cannot remove more than {DELETED_MAX} acls in a single delete operation.",
    )


def _filter_problem(asked: DeleteAclsFilter) -> str | None:
    if "UNKNOWN" in (
        _known(ResourceType, asked.resource_type_filter),
        _known(PatternType, asked.pattern_type_filter),
    ):
        return "Unknown patternFilter."
    if "UNKNOWN" in (
        _known(Operation, asked.operation),
        _known(Permission, asked.permission_type),
    ):
        return "Unknown entryFilter."
    return None
