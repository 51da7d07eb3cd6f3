"""Opens a connection: connects, starts TLS, negotiates versions, authenticates."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla import __version__
from ottla.buffers import Buffer
from ottla.network.connection import Connection, reason_of
from ottla.network.connection_metrics import ConnectionMetrics
from ottla.network.errors import Address, Unreachable
from ottla.network.exchange import Decode, Exchange
from ottla.network.sasl import SignIn
from ottla.network.security import PLAINTEXT, Security
from ottla.network.versions import Versions
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decoder
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.network import Socket
from ottla.runtime.runtime import Runtime

CONNECT_TIMEOUT_MS = 10_000


async def open_connection(
    runtime: Runtime,
    address: Address,
    *,
    client_id: str = "ottla",
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    security: Security = PLAINTEXT,
    metrics: ConnectionMetrics | None = None,
    **limits: int,
) -> Connection:
    """Open a connection. Each step has `connect_timeout_ms`, so that a peer that accepts but does
    not answer is given up, too."""
    socket = await _reach(runtime, address, security, connect_timeout_ms)
    connection = Connection(
        runtime, socket, address, client_id=client_id, metrics=metrics, **limits
    )
    try:
        connection.hint = security.hint_before_answer
        await _negotiate(connection, connect_timeout_ms)
        connection.hint = security.hint_after_introduction
        if security.begin_sign_in is not None:
            await SignIn(
                runtime, connection, security.mechanism, security.begin_sign_in, connect_timeout_ms
            ).run()
    except BaseException:
        connection.close()
        raise
    return connection


async def _reach(runtime: Runtime, address: Address, security: Security, timeout_ms: int) -> Socket:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await security.secured(await runtime.network.connect(*address), address)
    except TimeoutError:
        raise Unreachable(address, f"no answer within {timeout_ms} ms", timed_out=True) from None
    except OSError as error:
        raise Unreachable(address, reason_of(error)) from error


async def _negotiate(connection: Connection, timeout_ms: int) -> None:
    """Ask for the versions that the broker supports."""
    version = connection.versions.pick(ApiKey.API_VERSIONS, connection.address)
    response = await _ask_versions(connection, version, timeout_ms)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = Versions.of(response).common_api_versions(connection.address)
        response = await _ask_versions(connection, version, timeout_ms)
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    connection.negotiated(Versions.of(response))


async def _ask_versions(connection: Connection, version: int, timeout_ms: int) -> Any:
    from ottla.protocol.messages.api_versions import ApiVersionsRequest

    request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
    exchange = Exchange.of(request, version, _decode_api_versions(version))
    return await connection.post_as(exchange, request, timeout_ms)


def _decode_api_versions(version: int) -> Decode:
    """A broker that does not support our version responds in version 0, error code first."""
    from ottla.protocol.messages.api_versions import ApiVersionsResponse

    def decode(frame: Buffer, position: int) -> tuple[Any, int]:
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        spoken = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
        return decoder(ApiVersionsResponse, spoken)(frame, position)

    return decode
