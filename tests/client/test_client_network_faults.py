"""Networks and peers that fail: each has one outcome, in time, with words that help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from scripted_broker import Answer, ScriptedBroker, negotiating

from broker_harness import MakeBroker
from fault_proxy import FaultProxy
from ottla.client.errors import (
    BadResponse,
    ConnectionLost,
    NoBrokerReachable,
    RequestTimedOut,
    Unreachable,
)
from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.network.connection import Connection
from ottla.network.opening import open_connection
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.os_runtime import OsRuntime, run

T = TypeVar("T")


def through(proxy: FaultProxy, use: Callable[[Connection], Awaitable[T]], **limits: Any) -> T:
    """What `use` returns, given a connection through the proxy."""

    async def main(runtime: OsRuntime) -> T:
        connection = await open_connection(runtime, ("127.0.0.1", proxy.port), **limits)
        try:
            async with asyncio.timeout(20):
                return await use(connection)
        finally:
            connection.close()

    return run(main)


def proxy_to(bootstrap: str) -> FaultProxy:
    host, _, port = bootstrap.rpartition(":")
    return FaultProxy((host, int(port)))


# A connection that is cut


@pytest.mark.parametrize("count", [1, 4, 20])
def test_a_connection_cut_within_a_frame_fails_what_is_under_way(
    bootstrap: str, count: int
) -> None:
    with proxy_to(bootstrap) as proxy:

        async def use(connection: Connection) -> None:
            proxy.cut_after(count)
            with pytest.raises(ConnectionLost, match="the broker closed it"):
                await connection.request(MetadataRequest(topics=[]))
            assert connection.closed

        through(proxy, use)


def test_a_connection_that_is_reset_says_so(bootstrap: str) -> None:
    with proxy_to(bootstrap) as proxy:

        async def use(connection: Connection) -> None:
            proxy.stall("to_client")
            asked = asyncio.create_task(connection.request(MetadataRequest(topics=[])))
            await asyncio.sleep(0.05)
            proxy.cut()
            with pytest.raises(ConnectionLost, match="connection reset by peer"):
                await asked

        through(proxy, use)


def test_a_request_cut_on_its_way_out_fails_and_the_next_attempt_succeeds(
    fresh_broker: MakeBroker,
) -> None:
    with FaultProxy() as proxy:
        listener = f"PLAINTEXT://127.0.0.1:{proxy.port}"
        broker = fresh_broker({"advertised.listeners": listener})
        proxy.target = ("127.0.0.1", broker.port)

        async def main(runtime: OsRuntime) -> None:
            settings = ClientSettings(bootstrap_servers=proxy.address)
            async with Cluster.of(settings, runtime) as cluster:
                for direction in ("to_broker", "to_client"):
                    proxy.cut_after(10, direction)
                    with pytest.raises(ConnectionLost):
                        await cluster.refresh(())
                    await cluster.retrying(lambda: cluster.refresh(()))
                node_id = next(iter(cluster.view.brokers))
                assert (await cluster.broker(node_id)).address[1] == proxy.port
                proxy.cut()
                await cluster.retrying(lambda: cluster.refresh(()))

        run(main)


# Silence


def test_a_peer_that_accepts_and_never_answers_is_given_up_in_time() -> None:
    with (
        FaultProxy() as black_hole,
        pytest.raises(RequestTimedOut, match="ApiVersionsRequest within 200 ms"),
    ):
        through(black_hole, lambda connection: asyncio.sleep(0), connect_timeout_ms=200)


def test_a_broker_that_falls_silent_is_given_up_in_time_and_found_again(bootstrap: str) -> None:
    with proxy_to(bootstrap) as proxy:

        async def main(runtime: OsRuntime) -> None:
            settings = ClientSettings(bootstrap_servers=proxy.address, request_timeout_ms=200)
            async with Cluster.of(settings, runtime) as cluster:
                connection = await cluster.any_broker()
                proxy.stall()
                with pytest.raises(RequestTimedOut, match="MetadataRequest within 200 ms"):
                    await cluster.refresh(())
                assert connection.closed
                proxy.heal()
                await cluster.retrying(lambda: cluster.refresh(()))

        run(main)


def test_an_answer_that_dribbles_in_is_put_together(bootstrap: str) -> None:
    with proxy_to(bootstrap) as proxy:

        async def use(connection: Connection) -> int:
            proxy.dribble(3, 0.001)
            return len((await connection.request(MetadataRequest(topics=[]))).brokers)

        assert through(proxy, use) == 1


def test_an_answer_that_dribbles_past_the_deadline_is_given_up(bootstrap: str) -> None:
    with proxy_to(bootstrap) as proxy:

        async def use(connection: Connection) -> None:
            proxy.dribble(1, 0.1)
            with pytest.raises(RequestTimedOut):
                await connection.request(MetadataRequest(topics=[]), timeout_ms=400)

        through(proxy, use)


# Peers that are no brokers


def test_an_http_server_is_recognized_and_not_tried_again() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async def main(runtime: OsRuntime) -> None:
        async with await asyncio.start_server(http, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            cluster = Cluster.of(ClientSettings(bootstrap_servers=f"127.0.0.1:{port}"), runtime)
            async with asyncio.timeout(5):
                with pytest.raises(NoBrokerReachable, match="it is an HTTP server") as caught:
                    await cluster.retrying(cluster.any_broker)
            assert isinstance(caught.value.failures[0], BadResponse)
            cluster.close()

    run(main)


def scripted(answer: Answer, use: Callable[[Connection], Awaitable[T]], **versions: Any) -> T:
    async def main(runtime: OsRuntime) -> T:
        async with ScriptedBroker(negotiating(answer), **versions) as address:
            connection = await open_connection(runtime, address)
            try:
                async with asyncio.timeout(20):
                    return await use(connection)
            finally:
                connection.close()

    return run(main)


def test_an_answer_that_is_garbage_ends_the_connection_and_names_the_request() -> None:
    async def garbage(broker: Any, header: Any, request: Any, writer: Any) -> None:
        body = header.correlation_id.to_bytes(4, "big") + b"\0" + b"\xff" * 30
        writer.write(len(body).to_bytes(4, "big") + body)

    async def use(connection: Connection) -> None:
        first = connection.post(DescribeClusterRequest())
        second = connection.post(DescribeClusterRequest())
        with pytest.raises(BadResponse, match="no answer to DescribeClusterRequest version 2"):
            await first
        with pytest.raises(BadResponse):
            await second
        assert connection.closed

    scripted(garbage, use)


def test_an_answer_to_nothing_ends_the_connection() -> None:
    async def twice(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        for _ in range(2):
            broker.send(writer, header, DescribeClusterResponse(cluster_id="c"))

    async def use(connection: Connection) -> None:
        await connection.request(DescribeClusterRequest())
        await asyncio.sleep(0.1)
        with pytest.raises(BadResponse, match="nobody asked for"):
            await connection.request(DescribeClusterRequest())

    scripted(twice, use)


# Deadlines


async def silence(*_: Any) -> None:
    return


def test_a_short_deadline_behind_a_long_one_is_kept() -> None:
    async def use(connection: Connection) -> None:
        started = time.monotonic()
        long = connection.post(DescribeClusterRequest(), timeout_ms=10_000)
        short = connection.post(DescribeClusterRequest(), timeout_ms=100)
        with pytest.raises(RequestTimedOut):
            await short
        with pytest.raises(ConnectionLost, match="was not answered in time"):
            await long
        assert time.monotonic() - started < 5

    scripted(negotiating(silence), use)


def test_a_process_that_slept_past_the_deadline_takes_the_answer_that_is_there() -> None:
    """An application that blocks the loop is not a broker that fails."""

    async def prompt(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        broker.send(writer, header, DescribeClusterResponse(cluster_id="c"))

    async def use(connection: Connection) -> str:
        reply = connection.post(DescribeClusterRequest(), timeout_ms=100)
        await asyncio.sleep(0.01)
        time.sleep(0.6)  # noqa: ASYNC251
        return str((await reply).cluster_id)

    assert scripted(prompt, use) == "c"


def test_a_caller_who_gives_up_does_not_disturb_the_others() -> None:
    async def slow(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        await asyncio.sleep(0.05)
        broker.send(writer, header, DescribeClusterResponse(cluster_id="c"))

    async def use(connection: Connection) -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await connection.request(DescribeClusterRequest())
        return str((await connection.request(DescribeClusterRequest())).cluster_id)

    assert scripted(slow, use) == "c"


def test_requests_share_one_timer() -> None:
    async def echo(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
        broker.send(writer, header, DescribeClusterResponse(cluster_id="c"))

    async def use(connection: Connection) -> int:
        made = 0
        call_later = connection._runtime.call_later

        def counted(*arguments: Any) -> Any:
            nonlocal made
            made += 1
            return call_later(*arguments)

        connection._runtime.call_later = counted  # type: ignore[method-assign]
        await asyncio.gather(*(connection.request(DescribeClusterRequest()) for _ in range(300)))
        return made

    assert scripted(echo, use) <= 2


# Throttling


async def throttle(broker: ScriptedBroker, header: Any, request: Any, writer: Any) -> None:
    broker.send(writer, header, DescribeClusterResponse(cluster_id="c", throttle_time_ms=200))


async def time_of_two(connection: Connection) -> float:
    started = time.monotonic()
    for _ in range(2):
        await connection.request(DescribeClusterRequest())
    return time.monotonic() - started


def test_a_throttled_client_keeps_silent_for_as_long_as_it_is_told() -> None:
    async def use(connection: Connection) -> float:
        elapsed_s = await time_of_two(connection)
        assert connection.throttled_until > time.monotonic()
        return elapsed_s

    assert scripted(throttle, use) > 0.19


def test_throttling_by_an_old_broker_is_over_when_it_answers() -> None:
    versions = {key: api.versions for key, api in APIS.items()}
    versions[ApiKey.FETCH] = (4, 7)

    async def use(connection: Connection) -> float:
        elapsed_s = await time_of_two(connection)
        assert connection.throttled_until == 0
        return elapsed_s

    assert scripted(throttle, use, versions=versions) < 0.2


# Names


def test_a_host_that_has_no_address_is_named() -> None:
    async def main(runtime: OsRuntime) -> None:
        with pytest.raises(Unreachable, match=r"no-such-host\.invalid:9092: Name or service"):
            await open_connection(runtime, ("no-such-host.invalid", 9092))

    run(main)


def test_all_addresses_of_a_host_are_tried(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(bootstrap.rpartition(":")[2])

    async def main(runtime: OsRuntime) -> None:
        real = runtime.loop.getaddrinfo
        found = [*await real("127.0.0.2", port, type=1), *await real("127.0.0.1", port, type=1)]

        async def several(*_: Any, **__: Any) -> Any:
            return found

        class Loop:
            getaddrinfo = staticmethod(several)

            def __getattr__(self, name: str) -> Any:
                return getattr(runtime.loop, name)

        monkeypatch.setattr(runtime.network, "_loop", Loop())
        connection = await open_connection(runtime, ("a-host-with-two", port))
        connection.close()

    run(main)


# Counting


def test_a_client_counts_what_it_does(bootstrap: str) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with Cluster.of(ClientSettings(bootstrap_servers=bootstrap), runtime) as cluster:
            for _ in range(5):
                await cluster.refresh(())
            counted = cluster.metrics.snapshot()
        assert counted["connection-count"] == counted["connection-creation-total"] == 1
        assert counted["request-total"] == counted["response-total"] == 6
        assert counted["outgoing-byte-total"] > 6 * 10
        assert counted["incoming-byte-total"] > 6 * 10
        assert 0 < counted["request-latency-avg"] <= counted["request-latency-max"]
        assert counted["failed-authentication-total"] == 0
        assert cluster.metrics.snapshot()["connection-close-total"] == 1

    run(main)
