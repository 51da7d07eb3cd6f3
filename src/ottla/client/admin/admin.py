"""`Admin`: everything that Kafka's tools do, for any cluster that speaks Kafka's protocol.

Each family of calls has its own module, and sends its requests over the admin's link. If one of
several items fails, its `KafkaError` is returned as its result, so that the results of the others
are not lost; calls for a single item raise it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.admin.acls import AclAdmin
from ottla.client.admin.cluster_admin import ClusterAdmin
from ottla.client.admin.configs import ConfigAdmin
from ottla.client.admin.group_lag import GroupLagAdmin
from ottla.client.admin.group_offsets import GroupOffsetAdmin
from ottla.client.admin.groups import GroupAdmin
from ottla.client.admin.link import AdminLink
from ottla.client.admin.log_dirs import LogDirAdmin
from ottla.client.admin.offsets import OffsetAdmin
from ottla.client.admin.producers import ProducerAdmin
from ottla.client.admin.quorum import QuorumAdmin
from ottla.client.admin.quotas import QuotaAdmin
from ottla.client.admin.reassignments import ReassignmentAdmin
from ottla.client.admin.tokens import TokenAdmin
from ottla.client.admin.topics import TopicAdmin
from ottla.client.admin.transactions import TransactionAdmin
from ottla.client.admin.users import UserAdmin
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.client.settings.documentation import lists_settings

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster
    from ottla.runtime.runtime import Runtime


@lists_settings(ClientSettings)
class Admin(
    ClusterAdmin,
    QuorumAdmin,
    ConfigAdmin,
    OffsetAdmin,
    GroupLagAdmin,
    GroupAdmin,
    GroupOffsetAdmin,
    ProducerAdmin,
    TransactionAdmin,
    TopicAdmin,
    LogDirAdmin,
    ReassignmentAdmin,
    UserAdmin,
    TokenAdmin,
    QuotaAdmin,
    AclAdmin,
):
    """Administers a cluster.

    >>> async with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     await admin.create_topic("payments", partitions=6)
    ...     print(await admin.list_topics())

    Requests that the cluster does not support raise `UnsupportedVersion`.
    """

    def __init__(self, *, runtime: Runtime | None = None, **options: Unpack[ClientOptions]) -> None:
        self._link = AdminLink(settings_from(ClientSettings, options), runtime)

    @classmethod
    def over(cls, cluster: Cluster) -> Admin:
        """Return an admin that uses another owner's connected cluster and does not close it."""
        admin = cls.__new__(cls)
        admin._link = AdminLink(cluster.settings, cluster.runtime, cluster)
        return admin

    async def start(self) -> None:
        """Connect; `async with` does this. Raises `NoBrokerReachable` if no broker answers within
        default_api_timeout_ms."""
        await self._link.start()

    async def close(self) -> None:
        """Close all connections. Further calls do nothing."""
        await self._link.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
