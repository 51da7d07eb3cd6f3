"""ApiVersions: what this broker serves. The first request of almost every client."""

from __future__ import annotations

import re

from ottla.metadata.features import FEATURES, KRAFT_VERSION
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.server.context import RequestContext
from ottla.server.dispatch import BROKERS, served_on

SOFTWARE_FROM = 3
"""The first version in which clients say what they are."""
LOWEST_LEVEL_0_FROM = 4
"""Clients before it fail on a feature whose lowest level is 0, and are not told of any."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_versions: dict[tuple[str, bool], list[ApiVersion]] = {}


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = context.node.metadata.image
    return ApiVersionsResponse(
        api_keys=served_versions(
            context.connection.kind,
            unstable=context.node.config["unstable.api.versions.enable"],
        ),
        supported_features=[
            SupportedFeatureKey(
                name=feature.name, min_version=feature.lowest, max_version=feature.level
            )
            for feature in (*FEATURES, KRAFT_VERSION)
            if feature.lowest or context.api_version >= LOWEST_LEVEL_0_FROM
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _finalized(context).items()
        ],
    )


def _finalized(context: RequestContext) -> dict[str, int]:
    """The level of `kraft.version` is in the quorum's own records, not in the image."""
    levels = dict(context.node.metadata.image.features)
    if level := context.node.metadata.quorum.kraft_version:
        levels[KRAFT_VERSION.name] = level
    return levels


def unsupported_version(_context: RequestContext) -> ApiVersionsResponse:
    """The answer, in the shape of version 0, to a client that opened with a version from the
    future: it comes back with one from the list."""
    everything = served_versions(BROKERS)
    own = [version for version in everything if version.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


def served_versions(kind: str, *, unstable: bool = False) -> list[ApiVersion]:
    """What a kind of listener serves. With `unstable`, also versions that are still being designed.
    These are served in any case to a client that knows them, but clients that take the highest one
    there is are not led there.
    """
    if (kind, unstable) not in _versions:
        keys = sorted(served_on(kind))
        _versions[kind, unstable] = [_served(key, unstable) for key in keys]
    return _versions[kind, unstable]


def _served(key: ApiKey, unstable: bool) -> ApiVersion:
    declared = api(key)
    lowest = declared.versions[0]
    if key == ApiKey.PRODUCE:
        # Versions 0 to 2 are not served, but clients built on librdkafka take a higher minimum to
        # mean that the broker knows no modern batches, and fall back to what it really cannot do.
        lowest = 0
    highest = declared.versions[1] if unstable else declared.latest_stable
    return ApiVersion(api_key=key, min_version=lowest, max_version=highest)
