"""AlterUserScramCredentials: set and delete what users sign in with."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    context: ControllerContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    try:
        return await context.services.controller.rights.alter_scram_credentials(request)
    except KafkaError as error:
        return refuse(request, error)


def refuse(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    deleted = [change.name for change in request.deletions]
    users = dict.fromkeys([*deleted, *(change.name for change in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
            for user in users
        ]
    )


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
