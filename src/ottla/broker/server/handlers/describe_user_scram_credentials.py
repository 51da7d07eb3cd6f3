"""DescribeUserScramCredentials: users, their mechanisms and iterations, never salts or keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.runtime.pace import at_once, many_in_slices

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.server.context import NodeContext

AT_ONCE_CREDENTIALS_MAX: Final = 1_000
"""Above this number of them in the cluster the answer is built in slices."""


def handle(
    context: NodeContext, request: DescribeUserScramCredentialsRequest
) -> (
    DescribeUserScramCredentialsResponse | Coroutine[Any, Any, DescribeUserScramCredentialsResponse]
):
    image = context.services.metadata.image
    steps = _answer(image, [user.name for user in request.users or ()])
    if len(image.scram_credentials) <= AT_ONCE_CREDENTIALS_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _answer(
    image: MetadataImage, names: list[str]
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """`names` are the users asked for; none of them means all."""
    infos: dict[str, list[CredentialInfo]] = {}
    asked = Counter(names)
    for (user, mechanism), credential in image.scram_credentials.items():
        if not asked or user in asked:
            info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            infos.setdefault(user, []).append(info)
        yield
    response = DescribeUserScramCredentialsResponse(error_message=None)
    for user in asked or infos:
        response.results.append(_result(user, asked[user], infos.get(user)))
        yield
    return response


def _result(
    user: str, times_asked: int, infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_message=None)
    if times_asked > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif infos is None:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        result.credential_infos = sorted(infos, key=lambda info: info.mechanism)
    return result


HANDLER = Handler(on_broker=handle, on_controller=handle)
