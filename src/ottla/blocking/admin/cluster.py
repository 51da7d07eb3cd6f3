"""The cluster as a whole, without `await`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.cluster_admin import (
    DescribedCluster,
    FeatureLevels,
    ServedApi,
)
from ottla.client.admin.quorum import DescribedQuorum


class ClusterCalls(AdminCalls):
    def describe_cluster(self) -> DescribedCluster:
        return self._call(lambda: self._admin.describe_cluster())

    def describe_apis(self, broker: int | None = None) -> list[ServedApi]:
        return self._call(lambda: self._admin.describe_apis(broker))

    def describe_features(self, broker: int | None = None) -> FeatureLevels:
        return self._call(lambda: self._admin.describe_features(broker))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Literal["safe", "unsafe"] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._call(
            lambda: self._admin.update_features(
                levels, downgrade=downgrade, validate_only=validate_only
            )
        )

    def unregister_broker(self, broker: int) -> None:
        self._call(lambda: self._admin.unregister_broker(broker))

    def describe_metadata_quorum(self) -> DescribedQuorum:
        return self._call(lambda: self._admin.describe_metadata_quorum())

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: str,
        endpoints: Mapping[str, tuple[str, int]],
        *,
        cluster_id: str | None = None,
    ) -> None:
        self._call(
            lambda: self._admin.add_raft_voter(
                voter_id, directory_id, endpoints, cluster_id=cluster_id
            )
        )

    def remove_raft_voter(
        self, voter_id: int, directory_id: str, *, cluster_id: str | None = None
    ) -> None:
        self._call(
            lambda: self._admin.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id)
        )
