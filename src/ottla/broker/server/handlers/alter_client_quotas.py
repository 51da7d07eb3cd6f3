"""AlterClientQuotas: set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)


async def handle(
    context: ControllerContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    try:
        return await context.services.controller.rights.alter_client_quotas(request)
    except KafkaError as error:
        return refuse(request, error)


def refuse(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=error.code, error_message=error.message, entity=entry.entity
            )
            for entry in request.entries
        ]
    )


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
