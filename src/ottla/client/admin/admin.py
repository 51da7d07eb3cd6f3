"""`Admin`: everything the tools do, to any cluster that speaks Kafka's protocol.

Each family of calls is a file of its own. What fails for one of several items is returned beside it
as a `KafkaError`, so that the others are not lost; calls for a single item raise it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.admin.acls import AclAdmin
from ottla.client.admin.cluster_admin import ClusterAdmin
from ottla.client.admin.configs import ConfigAdmin
from ottla.client.admin.group_lag import GroupLagAdmin
from ottla.client.admin.group_offsets import GroupOffsetAdmin
from ottla.client.admin.log_dirs import LogDirAdmin
from ottla.client.admin.offsets import OffsetAdmin
from ottla.client.admin.producers import ProducerAdmin
from ottla.client.admin.quorum import QuorumAdmin
from ottla.client.admin.quotas import QuotaAdmin
from ottla.client.admin.reassignments import ReassignmentAdmin
from ottla.client.admin.users import UserAdmin
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime


class Admin(
    ClusterAdmin,
    QuorumAdmin,
    ConfigAdmin,
    OffsetAdmin,
    GroupLagAdmin,
    GroupOffsetAdmin,
    ProducerAdmin,
    LogDirAdmin,
    ReassignmentAdmin,
    UserAdmin,
    QuotaAdmin,
    AclAdmin,
):
    """Administers a cluster.

    >>> async with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     await admin.create_topic("payments", partitions=6)
    ...     print(await admin.list_topics())

    Requests that a cluster does not serve raise `UnsupportedVersion`.
    """

    def __init__(self, *, runtime: Runtime | None = None, **options: Unpack[ClientOptions]) -> None:
        self._settings = settings_from(ClientSettings, options)
        self._given_runtime = runtime
        self._own_runtime: Runtime | None = None
        self._owns_cluster = True

    @classmethod
    def over(cls, cluster: Cluster) -> Admin:
        """An admin of a cluster that somebody else has connected to, and closes."""
        admin = cls.__new__(cls)
        admin._settings = cluster.settings
        admin._given_runtime = cluster.runtime
        admin._own_runtime = None
        admin._owns_cluster = False
        admin._joined = cluster
        return admin

    async def start(self) -> None:
        """Connect; `async with` does it. Raises `NoBrokerReachable` if nobody answers within
        default_api_timeout_ms."""
        if self._joined is not None:
            return
        runtime = self._given_runtime
        if runtime is None:
            runtime = self._own_runtime = new_runtime()
        cluster = Cluster.of(self._settings, runtime)
        try:
            await cluster.retrying(cluster.any_broker)
        except BaseException:
            cluster.close()
            await self._close_runtime()
            raise
        self._joined = cluster

    async def close(self) -> None:
        """Close all connections; a second time does nothing."""
        if self._owns_cluster and self._joined is not None:
            self._joined.close()
            self._joined = None
        await self._close_runtime()

    async def _close_runtime(self) -> None:
        runtime, self._own_runtime = self._own_runtime, None
        if runtime is not None:
            await runtime.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
