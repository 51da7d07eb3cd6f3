"""ApiVersions: the APIs and versions that this broker serves. Almost every client sends it
first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.metadata.features import FEATURES, KRAFT_VERSION
from ottla.broker.server.caller import ClientSoftware
from ottla.broker.server.context import BrokerContext, ControllerContext, NodeContext
from ottla.broker.server.contract import BROKERS, CONTROLLERS, Handler, served_on
from ottla.protocol.apis import FORWARDABLE, ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_FROM = 3
"""The first version in which clients send their software name and version."""
LOWEST_LEVEL_0_FROM = 4
"""Older clients fail on a feature whose lowest level is 0, so they are not told of such
features."""
NOT_SERVED: Final = (0, -1)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_versions: dict[tuple[str, bool], list[ApiVersion]] = {}


def handle(context: BrokerContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    known = context.services.controller_link.controller_versions()
    own = _served_now(context, BROKERS)
    return _answer(context, request, own if known is None else common_versions(own, known))


def handle_on_controller(
    context: ControllerContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    return _answer(context, request, _served_now(context, CONTROLLERS))


def _served_now(context: NodeContext, kind: str) -> list[ApiVersion]:
    return served_versions(kind, unstable=context.services.config["unstable.api.versions.enable"])


def _answer(
    context: NodeContext, request: ApiVersionsRequest, versions: list[ApiVersion]
) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_FROM:
        software = ClientSoftware(request.client_software_name, request.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, software)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.caller.software = software
    image = context.services.metadata.image
    return ApiVersionsResponse(
        api_keys=versions,
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


def _finalized(context: NodeContext) -> dict[str, int]:
    """Return the feature levels. That of `kraft.version` is in the quorum's own records, not in the
    image."""
    levels = dict(context.services.metadata.image.features)
    if level := context.services.metadata.quorum.kraft_version:
        levels[KRAFT_VERSION.name] = level
    return levels


def unsupported_version(_context: NodeContext) -> ApiVersionsResponse:
    """Return the answer, in the format of version 0, to a client that used a version that is not
    served: it retries with one from the list."""
    everything = served_versions(BROKERS)
    own = [version for version in everything if version.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


def served_versions(kind: str, *, unstable: bool = False) -> list[ApiVersion]:
    """Return the versions that a kind of listener serves; with `unstable`, also those still being
    designed. Unstable versions are served in any case to a client that uses them, but they are not
    advertised, so that clients which take the highest version do not end up with one."""
    if (kind, unstable) not in _versions:
        keys = sorted(served_on(kind))
        _versions[kind, unstable] = [_served(key, unstable) for key in keys]
    return _versions[kind, unstable]


def common_versions(
    own: list[ApiVersion], of_controller: Mapping[int, tuple[int, int]]
) -> list[ApiVersion]:
    """Return the versions that a client may use if the active controller, to which this broker
    forwards some APIs, serves other versions of them."""
    common = []
    for served in own:
        if served.api_key in FORWARDABLE:
            low, high = of_controller.get(served.api_key, NOT_SERVED)
            low, high = max(low, served.min_version), min(high, served.max_version)
            if low > high:
                continue
            if (low, high) != (served.min_version, served.max_version):
                served = ApiVersion(api_key=served.api_key, min_version=low, max_version=high)
        common.append(served)
    return common


def _served(key: ApiKey, unstable: bool) -> ApiVersion:
    declared = api(key)
    lowest = declared.versions[0]
    if key == ApiKey.PRODUCE:
        # Versions 0 to 2 are not served. But clients built on librdkafka take a higher minimum to
        # mean that the broker does not know modern batches, and fall back to old formats, which it
        # really does not serve.
        lowest = 0
    highest = declared.versions[1] if unstable else declared.latest_stable
    return ApiVersion(api_key=key, min_version=lowest, max_version=highest)


HANDLER = Handler(on_broker=handle, on_controller=handle_on_controller)
