"""Administration of the cluster as a whole: who is there, what they can do, who leads."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.client.admin.part import AdminPart
from ottla.client.network.coordinators import raise_for
from ottla.client.network.metadata import Broker
from ottla.protocol.apis import APIS, ApiKey

METADATA_TOPIC = "__cluster_metadata"
FENCED_FROM = 2
NOBODY = -1


class DescribedCluster(NamedTuple):
    cluster_id: str | None
    controller: int | None
    """Who takes changes; in a KRaft cluster any broker, which hands them on."""
    brokers: dict[int, Broker]


class ServedApi(NamedTuple):
    """A request that a broker serves, in these versions."""

    key: int
    name: str
    min_version: int
    max_version: int


class FeatureLevels(NamedTuple):
    """What the cluster has agreed on (`finalized`), and what the asked broker could do."""

    finalized: dict[str, int]
    supported: dict[str, tuple[int, int]]
    epoch: int | None
    """Of the agreement: it grows with each change."""


class QuorumMember(NamedTuple):
    node_id: int
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class DescribedQuorum(NamedTuple):
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]


class ClusterAdmin(AdminPart):
    async def describe_cluster(self) -> DescribedCluster:
        """Brokers, fenced ones too where the cluster tells, and the controller."""
        return await self._cluster.retrying(self._describe_cluster)

    async def _describe_cluster(self) -> DescribedCluster:
        from ottla.protocol.messages.describe_cluster import DescribeClusterRequest

        connection = await self._cluster.any_broker()
        if not connection.versions.supports(ApiKey.DESCRIBE_CLUSTER):
            view = await self._cluster.refresh(())
            return DescribedCluster(view.cluster_id, _somebody(view.controller_id), view.brokers)
        request = DescribeClusterRequest()
        if (version := connection.version_of(request)) >= FENCED_FROM:
            request.include_fenced_brokers = True
        response = await connection.request(request, version=version)
        raise_for(response.error_code, response.error_message)
        brokers = {
            found.broker_id: Broker(
                found.broker_id, found.host, found.port, found.rack, bool(found.is_fenced)
            )
            for found in response.brokers
        }
        return DescribedCluster(response.cluster_id, _somebody(response.controller_id), brokers)

    async def describe_apis(self, broker: int | None = None) -> list[ServedApi]:
        """Which versions of each request a broker serves: the named one, or any."""
        return [
            ServedApi(
                found.api_key,
                APIS[found.api_key].name if found.api_key in APIS else "?",
                found.min_version,
                found.max_version,
            )
            for found in (await self._api_versions(broker)).api_keys
        ]

    async def describe_features(self, broker: int | None = None) -> FeatureLevels:
        """The levels of metadata.version, transaction.version, ... that are in force."""
        found = await self._api_versions(broker)
        return FeatureLevels(
            {one.name: one.max_version_level for one in found.finalized_features},
            {one.name: (one.min_version, one.max_version) for one in found.supported_features},
            found.finalized_features_epoch if found.finalized_features_epoch >= 0 else None,
        )

    async def _api_versions(self, broker: int | None) -> Any:
        from ottla import __version__
        from ottla.protocol.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name="ottla", client_software_version=__version__
        )

        async def attempt() -> Any:
            if broker is None:
                connection = await self._cluster.any_broker()
            else:
                await self._cluster.refresh(())
                connection = await self._cluster.broker(broker)
            response = await connection.request(request)
            raise_for(response.error_code)
            return response

        return await self._cluster.retrying(attempt)

    async def describe_quorum(self) -> DescribedQuorum:
        """The controllers' log: who leads it, who votes, and how far each has come."""
        from ottla.protocol.messages.describe_quorum import (
            DescribeQuorumRequest,
            RequestPartitionData,
            RequestTopicData,
        )

        request = DescribeQuorumRequest(
            topics=[
                RequestTopicData(
                    topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)]
                )
            ]
        )
        response = await self._ask_any(request)
        raise_for(response.error_code, response.error_message)
        found = response.topics[0].partitions[0]
        raise_for(found.error_code, found.error_message)
        return DescribedQuorum(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            tuple(map(_member, found.current_voters)),
            tuple(map(_member, found.observers)),
        )


def _somebody(node_id: int) -> int | None:
    return None if node_id == NOBODY else node_id


def _member(found: Any) -> QuorumMember:
    return QuorumMember(
        found.replica_id,
        found.log_end_offset,
        found.last_fetch_timestamp if found.last_fetch_timestamp >= 0 else None,
        found.last_caught_up_timestamp if found.last_caught_up_timestamp >= 0 else None,
    )
