"""`Admin` without `await`."""

from __future__ import annotations

from typing import Self, Unpack

from ottla.blocking.admin.access import AccessCalls
from ottla.blocking.admin.cluster import ClusterCalls
from ottla.blocking.admin.configs import ConfigCalls
from ottla.blocking.admin.groups import GroupCalls
from ottla.blocking.admin.records import RecordCalls
from ottla.blocking.admin.replicas import ReplicaCalls
from ottla.blocking.admin.topics import TopicCalls
from ottla.blocking.admin.transactions import TransactionCalls
from ottla.blocking.client import documented_as
from ottla.client.admin.admin import Admin as AsyncAdmin
from ottla.client.settings.common import ClientOptions


@documented_as(AsyncAdmin)
class Admin(
    TopicCalls,
    ConfigCalls,
    ClusterCalls,
    RecordCalls,
    GroupCalls,
    TransactionCalls,
    ReplicaCalls,
    AccessCalls,
):
    """Administers a cluster.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     admin.create_topic("payments", partitions=6)
    ...     print(admin.list_topics())
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._admin = AsyncAdmin(**options)

    def start(self) -> None:
        self._open(self._admin.start)

    def close(self) -> None:
        self._shut(self._admin.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
