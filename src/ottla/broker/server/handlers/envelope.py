"""Envelope: a broker forwards a request of its client to the active controller."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.pending import ClientTask
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse


def handle(
    context: ControllerContext, request: EnvelopeRequest
) -> ClientTask | Coroutine[Any, Any, EnvelopeResponse]:
    return context.services.enveloped.serve(context, request)


HANDLER = Handler(on_controller=handle)
