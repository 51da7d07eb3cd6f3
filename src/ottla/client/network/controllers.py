"""A cluster of controllers, reached through their own listeners (KIP-919).

It serves administration of the quorum when no broker is available. Its "brokers" are controllers.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.errors import UnsupportedVersion
from ottla.client.network.cluster import NO_TOPICS, Cluster
from ottla.client.network.coordinators import raise_for
from ottla.client.network.metadata import Broker, ClusterView
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

CONTROLLERS = 2
ENDPOINT_TYPE_FROM = 1


class Controllers(Cluster):
    async def __aenter__(self) -> Controllers:
        await self.any_controller()
        return self

    async def any_controller(self) -> Connection:
        """Return a connection to any controller that answers, leader or not."""
        return await super().any_broker()

    async def any_broker(self) -> Connection:
        """Return the active controller, which serves most requests that controllers accept."""
        return await self.controller()

    async def controller(self) -> Connection:
        view = await self.refresh(NO_TOPICS)
        if view.controller_id not in view.brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no controller leads the others now")
        return await self.broker(view.controller_id)

    async def refresh(
        self, topics: Iterable[str] | None = None, *, create_missing: bool = False
    ) -> ClusterView:
        """Return the controllers and the active one; controllers have no topics."""
        from ottla.protocol.messages.describe_cluster import DescribeClusterRequest

        connection = await self.any_controller()
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        if connection.version_of(request) < ENDPOINT_TYPE_FROM:
            raise UnsupportedVersion(
                connection.address, "DescribeCluster", "versions 1 to 2", "in version 0"
            )
        response = await connection.request(request)
        raise_for(response.error_code, response.error_message)
        controllers = {
            found.broker_id: Broker(found.broker_id, found.host, found.port)
            for found in response.brokers
        }
        view = ClusterView(response.cluster_id, response.controller_id, controllers)
        self.metadata.adopt(view)
        return view
