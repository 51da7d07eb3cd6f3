"""TLS to a broker: what is accepted, what is refused, and what the errors say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from scripted_broker import ScriptedBroker, negotiating

from ottla.client.errors import BadResponse, ConnectionLost, TlsFailed, Unreachable
from ottla.client.network.cluster import Cluster
from ottla.client.network.credentials import security_of
from ottla.client.settings.common import ClientSettings
from ottla.network.connection import Connection
from ottla.network.opening import open_connection
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.runtime.os_runtime import OsRuntime, run
from tls_files import PASSWORD, Authority, Certificate

T = TypeVar("T")
HOSTS = "DNS:localhost,IP:127.0.0.1"


class Files:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "ours")
        self.stranger = Authority(folder / "theirs", "stranger")
        self.broker = self.authority.sign("broker", HOSTS)
        self.elsewhere = self.authority.sign("elsewhere", "DNS:elsewhere.example")
        self.client = self.authority.sign("client", password=PASSWORD)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


async def answers(
    broker: ScriptedBroker, header: RequestHeader, request: Any, writer: asyncio.StreamWriter
) -> None:
    if isinstance(request, MetadataRequest):
        count = len(request.topics or ())
        broker.send(writer, header, MetadataResponse(cluster_id=str(count)))
    else:
        brokers = [DescribeClusterBroker(broker_id=n, host="h" * 30_000) for n in range(10)]
        broker.send(writer, header, DescribeClusterResponse(brokers=brokers))


def with_broker(
    files: Files,
    use: Callable[[Connection], Awaitable[T]],
    *,
    certificate: Certificate | None = None,
    asks_clients: bool = False,
    **settings: Any,
) -> T:
    context = files.authority.server_context(certificate or files.broker, asks_clients=asks_clients)
    broker = ScriptedBroker(negotiating(answers), tls=context)
    options = {"security_protocol": "SSL", "ssl_cafile": str(files.authority.certificate)}
    security = security_of(ClientSettings(**{**options, **settings}))

    async def main(runtime: OsRuntime) -> T:
        async with broker as address:
            connection = await open_connection(runtime, address, security=security)
            try:
                return await use(connection)
            finally:
                connection.close()

    return run(main)


async def ask(connection: Connection) -> int:
    response = await connection.request(DescribeClusterRequest())
    return sum(len(broker.host) for broker in response.brokers)


def test_large_answers_and_many_requests_pass_through_tls(files: Files) -> None:
    async def use(connection: Connection) -> list[int]:
        return await asyncio.gather(*(ask(connection) for _ in range(40)))

    assert with_broker(files, use) == [300_000] * 40


def test_a_large_request_is_sent_whole_through_tls(files: Files) -> None:
    async def use(connection: Connection) -> str:
        topics = [MetadataRequestTopic(name="t" * 200 + str(n)) for n in range(50_000)]
        response = await connection.request(MetadataRequest(topics=topics))
        return str(response.cluster_id)

    assert with_broker(files, use) == "50000"


def test_an_ssl_context_of_the_application_is_used(files: Files) -> None:
    context = ssl.create_default_context(cafile=str(files.authority.certificate))
    assert with_broker(files, ask, ssl_context=context, ssl_cafile="/nowhere") == 300_000


def test_a_broker_signed_by_a_stranger_is_not_trusted(files: Files) -> None:
    with pytest.raises(TlsFailed, match=r"certificate is not accepted: .*; ssl_cafile"):
        with_broker(files, ask, ssl_cafile=str(files.stranger.certificate))


def test_an_authority_that_is_named_takes_the_place_of_those_of_the_system(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority.certificate))
    assert with_broker(files, ask, ssl_cafile=None) is not None, "the system trusts the broker"
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        with_broker(files, ask, ssl_cafile=str(files.stranger.certificate))


def test_a_certificate_for_another_host_is_refused_unless_told_not_to_look(files: Files) -> None:
    with pytest.raises(TlsFailed, match=r"not valid for '127\.0\.0\.1'"):
        with_broker(files, ask, certificate=files.elsewhere)
    assert with_broker(files, ask, certificate=files.elsewhere, ssl_check_hostname=False) == 300_000


@pytest.mark.parametrize(
    ("begin", "end", "said"), [(-2, -1, "certificate has expired"), (1, 2, "is not yet valid")]
)
def test_a_certificate_out_of_its_time_is_refused_with_the_reason(
    files: Files, begin: int, end: int, said: str
) -> None:
    made = files.authority.sign_between("late", ["localhost"], begin, end)
    with pytest.raises(TlsFailed, match=said):
        with_broker(files, ask, certificate=made, ssl_check_hostname=False)


def test_a_client_shows_its_own_certificate_when_asked(files: Files) -> None:
    own = {
        "ssl_certfile": str(files.client.certificate),
        "ssl_keyfile": str(files.client.key),
        "ssl_password": PASSWORD,
    }
    assert with_broker(files, ask, asks_clients=True, **own) == 300_000


def test_keys_and_authorities_may_be_in_stores_of_java(files: Files) -> None:
    plain = files.authority.sign("in-a-store")
    store = str(files.authority.store(plain, PASSWORD))
    own = {
        "ssl_cafile": store,
        "ssl_cafile_password": PASSWORD,
        "ssl_certfile": store,
        "ssl_keyfile": store,
        "ssl_password": PASSWORD,
    }
    assert with_broker(files, ask, asks_clients=True, **own) == 300_000
    with pytest.raises(TlsFailed, match="the password of the store is wrong"):
        with_broker(files, ask, **own | {"ssl_cafile_password": "another"})


def test_a_client_without_the_certificate_that_is_asked_for_is_told_so(files: Files) -> None:
    # Python's own server says nothing before it hangs up; others say what is missing.
    with pytest.raises((TlsFailed, ConnectionLost), match="certificate"):
        with_broker(files, ask, asks_clients=True)


def test_a_plaintext_client_at_a_tls_port_gets_a_hint(files: Files) -> None:
    with pytest.raises((BadResponse, ConnectionLost), match=r"TLS.*security_protocol"):
        with_broker(files, ask, security_protocol="PLAINTEXT")


def test_a_tls_client_at_a_plaintext_port_gets_a_hint(bootstrap: str) -> None:
    async def main(runtime: OsRuntime) -> None:
        settings = ClientSettings(bootstrap_servers=bootstrap, security_protocol="SSL")
        with pytest.raises((Unreachable, TlsFailed), match="is security_protocol right"):
            async with Cluster.of(settings, runtime):
                raise AssertionError("it must not open")

    run(main)


def test_a_peer_that_never_shakes_hands_is_given_up_in_time(files: Files) -> None:
    async def main(runtime: OsRuntime) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()[:2]
        security = security_of(ClientSettings(security_protocol="SSL"))
        with pytest.raises(Unreachable, match="no answer within 150 ms"):
            await open_connection(runtime, address, security=security, connect_timeout_ms=150)
        server.close()

    run(main)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_cafile": "/nowhere/ca.pem"}, "cannot read /nowhere/ca.pem: No such file"),
        ({"ssl_cafile": __file__}, "test_client_network_tls.py holds no PEM certificates"),
        ({"ssl_certfile": "/nowhere/me.pem"}, "cannot read /nowhere/me.pem"),
        ({"ssl_certfile": "CLIENT", "ssl_keyfile": "CLIENT_KEY"}, "the password of the key"),
    ],
)
def test_a_file_that_is_missing_or_wrong_is_named_before_anything_is_connected(
    files: Files, settings: dict[str, str], words: str
) -> None:
    known = {"CLIENT": str(files.client.certificate), "CLIENT_KEY": str(files.client.key)}
    options: Any = {name: known.get(value, value) for name, value in settings.items()}

    async def main(runtime: OsRuntime) -> None:
        with pytest.raises(TlsFailed, match=words):
            Cluster.of(ClientSettings(security_protocol="SSL", **options), runtime)

    run(main)


def test_a_broker_that_ends_the_connection_in_the_middle_fails_what_is_under_way(
    files: Files,
) -> None:
    async def hang_up(broker: Any, header: Any, request: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\0\1\0half")
        await writer.drain()
        writer.transport.abort()

    broker = ScriptedBroker(negotiating(hang_up), tls=files.authority.server_context(files.broker))
    security = security_of(
        ClientSettings(security_protocol="SSL", ssl_cafile=str(files.authority.certificate))
    )

    async def main(runtime: OsRuntime) -> None:
        async with broker as address:
            connection = await open_connection(runtime, address, security=security)
            with pytest.raises(ConnectionLost):
                await connection.request(DescribeClusterRequest())

    run(main)
