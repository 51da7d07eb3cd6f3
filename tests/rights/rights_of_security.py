"""Samples of requests about ACLs, users, tokens and quotas."""

from __future__ import annotations

from typing import Any

from rights_samples import ALTER, DESCRIBE, Sample, on_cluster

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

ALL_ACLS: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:sample",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

SECURITY: list[Sample] = [
    Sample(
        ApiKey.DESCRIBE_ACLS,
        lambda world: DescribeAclsRequest(**ALL_ACLS),
        grants=(on_cluster(DESCRIBE),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.CREATE_ACLS,
        lambda world: CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2,
                    resource_name="sample",
                    principal="User:sample",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
        grants=(on_cluster(ALTER),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.DELETE_ACLS,
        lambda world: DeleteAclsRequest(filters=[DeleteAclsFilter(**ALL_ACLS)]),
        grants=(on_cluster(ALTER),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        lambda world: DescribeUserScramCredentialsRequest(),
        grants=(on_cluster(DESCRIBE),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        lambda world: AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(
                    name="sample", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
                )
            ]
        ),
        grants=(on_cluster(ALTER),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
]
