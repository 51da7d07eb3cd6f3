"""Registers a controller with the active one: its endpoints and features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ottla.broker.membership.registration import listeners_of, supported_features
from ottla.broker.metadata.image import Endpoint
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.schema import Message

log = get_logger("ottla.node")

RETRY_S: Final = 1.0


async def register_controller(
    ask: Callable[[Message], Awaitable[Any]],
    controller_id: int,
    incarnation_id: bytes,
    endpoints: Sequence[Endpoint],
) -> None:
    """Retry until it is done: it may take long until there is a quorum."""
    request = ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        listeners=listeners_of(Listener, endpoints),
        features=supported_features(Feature),
    )
    while True:
        try:
            response = await ask(request)
        except KafkaError as error:
            if error.code != ErrorCode.REQUEST_TIMED_OUT:
                log.warning("cannot register this controller", reason=str(error))
        else:
            if not response.error_code:
                return
            reason = response.error_message or ErrorCode.of(response.error_code).name
            log.warning("cannot register this controller", reason=reason)
        await asyncio.sleep(RETRY_S)
