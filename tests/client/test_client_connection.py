"""One connection, against peers that behave and peers that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scripted_broker import Answer, ScriptedBroker, negotiating

from ottla.client.errors import (
    BadResponse,
    ConnectionLost,
    RequestTimedOut,
    Unreachable,
    UnsupportedVersion,
)
from ottla.network.connection import Connection
from ottla.network.opening import open_connection
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.runtime.os_runtime import OsRuntime, run

Use = Callable[[Connection], Awaitable[Any]]


def connected(
    answer: Answer,
    use: Use,
    *,
    versions: dict[int, tuple[int, int]] | None = None,
    **limits: int,
) -> tuple[Any, ScriptedBroker]:
    """What `use` returns when given a connection to a broker that answers with `answer`."""
    broker = ScriptedBroker(answer, versions)

    async def main(runtime: OsRuntime) -> Any:
        async with broker as address:
            connection = await open_connection(runtime, address, **limits)
            try:
                return await use(connection)
            finally:
                connection.close()

    return run(main), broker


async def echo_cluster_id(
    broker: ScriptedBroker, header: RequestHeader, request: Any, writer: asyncio.StreamWriter
) -> None:
    """A different answer to each request, so that a mix-up shows."""
    broker.send(writer, header, DescribeClusterResponse(cluster_id=f"c{header.correlation_id}"))


async def silence(*_: Any) -> None:
    return


def test_many_requests_under_way_get_their_own_answers() -> None:
    async def use(connection: Connection) -> list[str]:
        replies = [connection.request(DescribeClusterRequest()) for _ in range(200)]
        return [reply.cluster_id for reply in await asyncio.gather(*replies)]

    ids, broker = connected(negotiating(echo_cluster_id), use)
    sent = [h.correlation_id for h in broker.requests if h.api_key == ApiKey.DESCRIBE_CLUSTER]
    assert ids == [f"c{number}" for number in sent]
    assert len(set(ids)) == 200


def test_the_newest_version_both_sides_know_is_spoken() -> None:
    async def use(connection: Connection) -> int:
        await connection.request(MetadataRequest(topics=[]))
        return connection.version_of(MetadataRequest)

    async def answer(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        broker.send(writer, header, MetadataResponse())

    served = {ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (1, 7)}
    version, broker = connected(negotiating(answer), use, versions=served)
    assert version == 7
    assert broker.requests[-1].api_version == 7


def test_an_api_in_no_common_version_is_refused_before_it_is_sent() -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(UnsupportedVersion, match=r"Metadata in versions 20 to 30.*0 to 13"):
            await connection.request(MetadataRequest())
        with pytest.raises(UnsupportedVersion, match="DescribeCluster in no version"):
            await connection.request(DescribeClusterRequest())

    served = {ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (20, 30)}
    _, broker = connected(negotiating(silence), use, versions=served)
    assert [header.api_key for header in broker.requests] == [ApiKey.API_VERSIONS]


@pytest.mark.parametrize("told", [{ApiKey.API_VERSIONS: (0, 2)}, {}])
def test_a_broker_with_older_api_versions_is_asked_again_in_its_own(
    told: dict[int, tuple[int, int]],
) -> None:
    """Kafka answers an unknown version with error 35 in the shape of version 0."""

    async def answer(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        if header.api_version > 2:
            all_versions, broker.versions = broker.versions, told
            old = broker.versions_response(ErrorCode.UNSUPPORTED_VERSION)
            broker.send(writer, header._replace(api_version=0), old)
            broker.versions = all_versions
        else:
            broker.send_versions(writer, header)

    async def use(connection: Connection) -> bool:
        return connection.versions.supports(ApiKey.METADATA)

    supports, broker = connected(answer, use)
    assert supports
    assert [header.api_version for header in broker.requests] == [4, 2 if told else 0]


def test_a_silent_broker_fails_the_request_in_time_and_all_others_with_it() -> None:
    async def use(connection: Connection) -> list[BaseException]:
        replies = [
            connection.request(DescribeClusterRequest(), timeout_ms=limit) for limit in (60, 5000)
        ]
        outcome = await asyncio.gather(*replies, return_exceptions=True)
        assert connection.closed
        return [error for error in outcome if isinstance(error, BaseException)]

    errors, _ = connected(negotiating(silence), use)
    assert isinstance(errors[0], RequestTimedOut)
    assert "within 60 ms" in str(errors[0])
    assert isinstance(errors[1], ConnectionLost)


def test_a_broker_that_hangs_up_fails_what_is_under_way_and_what_comes_after() -> None:
    async def hang_up(broker: Any, header: Any, request: Any, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def use(connection: Connection) -> None:
        with pytest.raises(ConnectionLost, match="the broker closed it"):
            await connection.request(DescribeClusterRequest())
        with pytest.raises(ConnectionLost):
            await connection.request(DescribeClusterRequest())

    connected(negotiating(hang_up), use)


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of"),
        ((8).to_bytes(4, "big") + (999).to_bytes(4, "big") + b"\0\0\0\0", "correlation id 999"),
        ((2).to_bytes(4, "big") + b"\0\0", "not a response header"),
    ],
)
def test_a_peer_that_speaks_something_else_is_told_from_a_broker(
    sent: bytes, complaint: str
) -> None:
    async def nonsense(broker: Any, header: Any, request: Any, writer: Any) -> None:
        writer.write(sent)

    async def use(connection: Connection) -> None:
        raise AssertionError("it must not open")

    with pytest.raises(BadResponse, match=complaint):
        connected(nonsense, use)


def test_a_response_beyond_the_limit_is_refused() -> None:
    async def huge(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        broker.send(writer, header, DescribeClusterResponse(cluster_id="x" * 20_000))

    async def use(connection: Connection) -> None:
        with pytest.raises(BadResponse, match="limit 10000"):
            await connection.request(DescribeClusterRequest())

    connected(negotiating(huge), use, response_bytes_max=10_000)


def test_an_address_where_nobody_listens_is_named() -> None:
    async def main(runtime: OsRuntime) -> None:
        async with ScriptedBroker(silence) as address:
            pass
        with pytest.raises(Unreachable, match=f"127.0.0.1:{address[1]}: connection refused"):
            await open_connection(runtime, address)

    run(main)


def test_no_more_requests_are_under_way_than_allowed() -> None:
    waiting = 0
    most = 0

    async def slow(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.002)
        waiting -= 1
        broker.send(writer, header, DescribeClusterResponse(cluster_id="c"))

    async def use(connection: Connection) -> int:
        sent = []

        async def one() -> None:
            await connection.request(DescribeClusterRequest())
            sent.append(connection._next_correlation_id)

        await asyncio.gather(*(one() for _ in range(10)))
        # Each answer lets exactly one more request out.
        return sent[0]

    first_done_at, _ = connected(negotiating(slow), use, in_flight_max=2)
    assert first_done_at <= 4


def test_a_large_request_is_sent_whole_to_a_slow_reader() -> None:
    async def count(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        broker.send(writer, header, MetadataResponse(cluster_id=str(len(request.topics))))

    async def use(connection: Connection) -> str:
        from ottla.protocol.messages.metadata import MetadataRequestTopic

        topics = [MetadataRequestTopic(name="t" * 200 + str(n)) for n in range(50_000)]
        response = await connection.request(MetadataRequest(topics=topics))
        return str(response.cluster_id)

    counted, _ = connected(negotiating(count), use)
    assert counted == "50000"
