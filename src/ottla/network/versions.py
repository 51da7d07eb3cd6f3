"""Picks the version of a request: the newest stable one that both sides support."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ottla.network.errors import Address, UnsupportedVersion
from ottla.protocol.apis import ApiKey, api


class Versions:
    """The versions that one broker supports: API key to (lowest, highest)."""

    def __init__(
        self,
        served: Mapping[int, tuple[int, int]],
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.served = dict(served)
        self._features = dict(features or {})
        self._picked: dict[int, int] = {}

    @classmethod
    def of(cls, response: Any) -> Versions:
        return cls(
            {key.api_key: (key.min_version, key.max_version) for key in response.api_keys},
            {one.name: one.max_version_level for one in response.finalized_features},
        )

    def feature(self, name: str) -> int:
        """Return the finalized level of a feature; 0 if there is none."""
        return self._features.get(name, 0)

    def pick(self, api_key: int, address: Address) -> int:
        version = self._picked.get(api_key)
        if version is None:
            version = self._picked[api_key] = self._highest_common(api_key, address)
        return version

    def supports(self, api_key: int, version: int = 0) -> bool:
        low, high = self.served.get(api_key, (0, -1))
        return low <= high and version <= high

    def common_api_versions(self, address: Address) -> int:
        """Return the version after an UNSUPPORTED_VERSION response; 0 if that lists no versions."""
        if ApiKey.API_VERSIONS not in self.served:
            return 0
        return self._highest_common(ApiKey.API_VERSIONS, address)

    def _highest_common(self, api_key: int, address: Address) -> int:
        low_ours, high_ours = known_versions(api_key)
        low, high = self.served.get(api_key, (0, -1))
        name = api(api_key).name
        ours = f"versions {low_ours} to {high_ours}"
        if high < low:
            raise UnsupportedVersion(address, name, ours, "in no version")
        version = min(high, high_ours)
        if version < max(low, low_ours):
            raise UnsupportedVersion(address, name, ours, f"in versions {low} to {high}")
        return version


@cache
def known_versions(api_key: int) -> tuple[int, int]:
    """Return the range of stable versions: an unstable version may still change its format."""
    known = api(api_key)
    return known.versions[0], known.latest_stable


@cache
def response_class(api_key: int) -> Any:
    return api(api_key).response_class()


KNOWN_BEFORE_ASKING = Versions({ApiKey.API_VERSIONS: known_versions(ApiKey.API_VERSIONS)})
