"""Creating and deleting ACLs: what is refused, what is written, and what a deletion finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from controller_cases import applied

from ottla.broker.controller.rights.acls import (
    DELETED_MAX,
    FoundAcl,
    checked,
    create_acls,
    delete_acls,
    matching,
)
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_acls import AclCreation
from ottla.protocol.messages.delete_acls import DeleteAclsFilter
from ottla.runtime.pace import at_once
from ottla.security.acls import AccessControlEntry
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

EMPTY = MetadataImage(cluster_id="test", offset=0)
ANYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def creation(**fields: Any) -> AclCreation:
    valid: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "t",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**valid, **fields})


def created(image: MetadataImage, *creations: AclCreation) -> MetadataImage:
    decision = create_acls(image, at_once(checked(creations, Random(image.offset))))
    assert decision.response == [None] * len(creations)
    return applied(image, decision)


def deletion(image: MetadataImage, *filters: dict[str, Any]) -> Any:
    asked = [DeleteAclsFilter(**{**ANYTHING, **one}) for one in filters]
    found = at_once(matching(image.acls, image.acl_ids, asked))
    return delete_acls(image, found)


def test_an_acl_is_written_once() -> None:
    image = created(EMPTY, creation(), creation())
    (acl,) = image.acls.values()
    assert acl == AccessControlEntry(2, "t", 3, "User:ann", "*", 3, 3)
    again = create_acls(image, at_once(checked([creation()], Random(7))))
    assert (again.records, again.response) == ([], [None])
    assert len(created(image, creation(host="10.0.0.1")).acls) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"principal": "ann"}, "Could not parse principal from `ann` (no colon is present"),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_created(
    fields: dict[str, Any], message: str
) -> None:
    decision = create_acls(EMPTY, at_once(checked([creation(**fields), creation()], Random(1))))
    refused, fine = decision.response
    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert refused.message.startswith(message)
    assert fine is None
    assert len(decision.records) == 1


def test_each_filter_is_answered_with_what_it_deleted() -> None:
    image = created(EMPTY, creation(), creation(resource_name="u"), creation(host="10.0.0.1"))
    everything, exact, nothing = (
        {"resource_name_filter": "t"},
        {
            "resource_type_filter": 2,
            "resource_name_filter": "u",
            "pattern_type_filter": 3,
            "principal_filter": "User:ann",
            "host_filter": "*",
            "operation": 3,
            "permission_type": 3,
        },
        {"principal_filter": "User:bo"},
    )
    decision = deletion(image, everything, exact, nothing, everything)
    hosts = [[(acl.resource_name, acl.host) for acl in outcome] for outcome in decision.response]
    assert hosts[0] == hosts[3]
    assert [sorted(one) for one in hosts] == [
        [("t", "*"), ("t", "10.0.0.1")],
        [("u", "*")],
        [],
        [("t", "*"), ("t", "10.0.0.1")],
    ]
    assert len(decision.records) == 3
    after = applied(image, decision)
    assert (after.acls, after.acl_ids) == ({}, {})


def test_a_filter_with_unknown_elements_is_refused() -> None:
    decision = deletion(EMPTY, {"pattern_type_filter": 99}, {"operation": 99})
    assert [(e.code, e.message) for e in decision.response] == [
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter."),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
    ]


def test_acls_that_are_gone_by_now_are_not_deleted_again() -> None:
    image = created(EMPTY, creation())
    (acl_id,) = image.acls
    found = [[FoundAcl(acl_id, image.acls[acl_id])]]
    assert delete_acls(EMPTY, found) == ([], [[]])


def test_too_many_deletions_are_refused_as_a_whole() -> None:
    acl = AccessControlEntry(2, "t", 3, "User:ann", "*", 3, 3)
    ids = {number.to_bytes(16, "big"): acl for number in range(DELETED_MAX + 1)}
    image = MetadataImage(acls=ids)
    with pytest.raises(KafkaError, match="Cannot remove more than 10000 acls") as refused:
        deletion(image, {})
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert len(deletion(MetadataImage(acls=dict(list(ids.items())[1:])), {}).records) == DELETED_MAX


def test_what_is_created_and_deleted_is_found_again_in_the_image() -> None:
    chance = Random(5)
    image = EMPTY
    for _ in range(60):
        if chance.random() < 0.6:
            host = f"10.0.0.{chance.randrange(8)}"
            image = created(image, creation(resource_name=chance.choice("tuv"), host=host))
        else:
            decision = deletion(image, {"resource_name_filter": chance.choice("tuv")})
            image = applied(image, decision)
        assert {acl: acl_id for acl_id, acl in image.acls.items()} == image.acl_ids
