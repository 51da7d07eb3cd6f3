"""Samples of requests about ACLs, users, tokens and quotas."""

from __future__ import annotations

from rights_samples import ALTER, DESCRIBE, Sample, on_cluster

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

SECURITY: list[Sample] = [
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
