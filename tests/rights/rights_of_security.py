"""Samples of requests about ACLs, users, tokens and quotas."""

from __future__ import annotations

from typing import Any

from rights_samples import ALTER, DESCRIBE, Grant, Sample, on_cluster

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.rights import Operation, ResourceType

ALL_ACLS: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:sample",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def token_of(owner: str) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=owner, max_lifetime_ms=-1
    )


SECURITY: list[Sample] = [
    Sample(
        ApiKey.SASL_HANDSHAKE,
        lambda world: SaslHandshakeRequest(mechanism="PLAIN"),
        allowed=ErrorCode.ILLEGAL_SASL_STATE,
        compared=False,  # there, users have signed in
    ),
    Sample(
        ApiKey.SASL_AUTHENTICATE,
        lambda world: SaslAuthenticateRequest(auth_bytes=b""),
        allowed=ErrorCode.ILLEGAL_SASL_STATE,
        compared=False,
    ),
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
        ApiKey.CREATE_DELEGATION_TOKEN,
        lambda world: token_of("somebody"),
        grants=(Grant(Operation.CREATE_TOKENS, ResourceType.USER, "User:somebody"),),
        refused=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        needs_sign_in=True,
    ),
    Sample(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        lambda world: DescribeDelegationTokenRequest(
            owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name="another")]
        ),
        grants=(Grant(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:another"),),
        prepare=lambda world: world.ask(token_of("another")),
        shown=lambda answer: answer.tokens,
        needs_sign_in=True,
    ),
    Sample(
        ApiKey.RENEW_DELEGATION_TOKEN,
        lambda world: RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=-1),
        allowed=ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        needs_sign_in=True,
    ),
    Sample(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        lambda world: ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=-1),
        allowed=ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        needs_sign_in=True,
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
