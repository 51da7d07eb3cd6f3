"""UpdateFeatures: raise or lower what the whole cluster may use."""

from __future__ import annotations

from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.server.context import RequestContext


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return await context.node.controller.update_features(request)
