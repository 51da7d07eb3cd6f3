"""Samples of requests about client quotas."""

from __future__ import annotations

from rights_samples import ALTER_CONFIGS, DESCRIBE_CONFIGS, Sample, World, on_cluster

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _set_rate(world: World) -> AlterClientQuotasRequest:
    user = EntityData(entity_type="user", entity_name="somebody")
    rate = OpData(key="producer_byte_rate", value=1e9)
    return AlterClientQuotasRequest(entries=[RequestEntryData(entity=[user], ops=[rate])])


QUOTAS = [
    Sample(
        ApiKey.ALTER_CLIENT_QUOTAS,
        _set_rate,
        grants=(on_cluster(ALTER_CONFIGS),),
        refused=REFUSED,
    ),
    Sample(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        lambda world: DescribeClientQuotasRequest(),
        grants=(on_cluster(DESCRIBE_CONFIGS),),
        refused=REFUSED,
    ),
]
