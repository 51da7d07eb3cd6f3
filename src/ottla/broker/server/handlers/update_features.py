"""UpdateFeatures: raise or lower feature levels of the whole cluster."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def handle(
    context: ControllerContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    return await context.services.controller.update_features(request)


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
