"""Admin calls for the cluster as a whole: brokers, controller, APIs and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import raise_for
from ottla.client.network.metadata import Broker
from ottla.protocol.apis import APIS, ApiKey

FENCED_FROM = 2
NOBODY = -1

UPGRADE = 1
DOWNGRADES = {"safe": 2, "unsafe": 3}


class DescribedCluster(NamedTuple):
    cluster_id: str | None
    controller: int | None
    """The broker that takes changes. In a KRaft cluster it is any broker, which forwards them."""
    brokers: dict[int, Broker]
    tells_fenced: bool = False
    """True if `brokers` includes the fenced ones, so that a missing broker is not registered."""


class ServedApi(NamedTuple):
    """An API that a broker serves, with its range of versions."""

    key: int
    name: str
    min_version: int
    max_version: int


class FeatureLevels(NamedTuple):
    """The levels the cluster has agreed on (`finalized`) and those the asked broker supports."""

    finalized: dict[str, int]
    supported: dict[str, tuple[int, int]]
    epoch: int | None
    """The epoch of the finalized features. It grows with each change."""


class ClusterAdmin:
    _link: AdminLink

    async def describe_cluster(self) -> DescribedCluster:
        """Return the controller and all brokers, fenced ones too if the cluster reports them."""
        return await self._link.cluster.retrying(self._describe_cluster)

    async def _describe_cluster(self) -> DescribedCluster:
        from ottla.protocol.messages.describe_cluster import DescribeClusterRequest

        connection = await self._link.cluster.any_broker()
        if not connection.versions.supports(ApiKey.DESCRIBE_CLUSTER):
            view = await self._link.cluster.refresh(())
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
        return DescribedCluster(
            response.cluster_id,
            _somebody(response.controller_id),
            brokers,
            version >= FENCED_FROM,
        )

    async def describe_apis(self, broker: int | None = None) -> list[ServedApi]:
        """Return the versions of each API that a broker serves: the given broker, or any."""
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
        """Return the finalized and supported levels of features such as metadata.version."""
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
                connection = await self._link.cluster.any_broker()
            else:
                await self._link.cluster.refresh(())
                connection = await self._link.cluster.broker(broker)
            response = await connection.request(request)
            raise_for(response.error_code)
            return response

        return await self._link.cluster.retrying(attempt)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Literal["safe", "unsafe"] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise features to these levels, all or none. Level 0 disables a feature. Lowering a
        level requires `downgrade`: "safe" if it loses no metadata, otherwise "unsafe".

        >>> await admin.update_features({"transaction.version": 2})
        """
        from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

        if downgrade is not None and downgrade not in DOWNGRADES:
            raise ValueError(f"downgrade is {downgrade!r}: it can be None, 'safe' or 'unsafe'")
        kind = UPGRADE if downgrade is None else DOWNGRADES[downgrade]
        request = UpdateFeaturesRequest(
            timeout_ms=self._link.cluster.request_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response = await self._link.change(lambda _: request)
        raise_for(response.error_code, response.error_message)
        for result in response.results:
            raise_for(result.error_code, result.error_message)

    async def unregister_broker(self, broker: int) -> None:
        """Unregister a broker that was stopped for good. Its partitions are not moved: reassign
        them first."""
        from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

        response = await self._link.change(lambda _: UnregisterBrokerRequest(broker_id=broker))
        raise_for(response.error_code, response.error_message)


def _somebody(node_id: int) -> int | None:
    return None if node_id == NOBODY else node_id
