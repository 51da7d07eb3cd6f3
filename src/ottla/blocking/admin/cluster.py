"""The cluster as a whole, without `await`."""

from __future__ import annotations

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.cluster_admin import (
    DescribedCluster,
    DescribedQuorum,
    FeatureLevels,
    ServedApi,
)


class ClusterCalls(AdminCalls):
    def describe_cluster(self) -> DescribedCluster:
        return self._call(lambda: self._admin.describe_cluster())

    def describe_apis(self, broker: int | None = None) -> list[ServedApi]:
        return self._call(lambda: self._admin.describe_apis(broker))

    def describe_features(self, broker: int | None = None) -> FeatureLevels:
        return self._call(lambda: self._admin.describe_features(broker))

    def describe_quorum(self) -> DescribedQuorum:
        return self._call(lambda: self._admin.describe_quorum())
