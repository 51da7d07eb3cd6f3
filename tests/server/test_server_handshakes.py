"""TLS handshakes: those that fail, stall or come by the thousand are bounded and hurt no others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench.brokers import HOST

from ottla.broker.server.connections import handshakes as module
from ottla.broker.server.connections.failure_log import FAILURES_LOGGED_PER_S_MAX
from ottla.broker.server.connections.handshakes import Handshakes
from ottla.network.node_tls import ListenerTls, NoPrincipal
from ottla.runtime.network import Socket
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.runtime.tls.material import load_material
from ottla.runtime.tls.settings import Pem, TlsSettings
from ottla.runtime.tls.socket import TlsBuffers
from tls_broker import TlsFolder
from tls_files import Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


class Gate:
    """A listener whose clients only shake hands."""

    def __init__(self, runtime: OsRuntime, files: TlsFolder, client_auth: str = "none") -> None:
        settings = TlsSettings(
            Pem("ssl.keystore.location", path=str(files.broker_store)),
            "",
            "ssl.key.password",
            Pem("ssl.truststore.location", path=files.ca),
            client_auth,
        )
        self.tls = ListenerTls("SSL", load_material(settings), TlsBuffers())
        self.handshakes = Handshakes(runtime)
        self.secured: list[Socket] = []
        self.failed = 0
        self.listener = runtime.network.listen(HOST, 0, self._accepted, backlog=2_000)

    def _accepted(self, raw: Socket) -> None:
        self.handshakes.begin(raw, self.tls, self.secured.append, self._count_failure)

    def _count_failure(self) -> None:
        self.failed += 1

    async def client(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        """In a thread: unlike those of asyncio, such a client says why it refuses a certificate."""

        def connect() -> ssl.SSLSocket:
            return context.wrap_socket(self.silent(), server_hostname=HOST)

        return await asyncio.to_thread(connect)

    def silent(self) -> socket.socket:
        return socket.create_connection(self.listener.address, timeout=20)

    def close(self) -> None:
        self.listener.close()
        self.handshakes.close()
        for one in self.secured:
            one.close()


@contextlib.asynccontextmanager
async def open_gate(
    runtime: OsRuntime, files: TlsFolder, client_auth: str = "none"
) -> AsyncIterator[Gate]:
    gate = Gate(runtime, files, client_auth)
    try:
        yield gate
    finally:
        gate.close()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        str(getattr(record, "fields", {}).get("reason", record.getMessage()))
        for record in caplog.records
        if "handshake failed" in record.getMessage()
    ]


def test_a_handshake_that_stalls_is_ended_in_time(
    files: TlsFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_TIMEOUT_S", 0.2)

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            silent, started = gate.silent(), gate.silent()
            with silent, started:
                started.sendall(b"\x16\x03\x01\x02\x00\x01")
                await eventually(lambda: gate.failed == 2)
                assert silent.recv(1) == b""

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    assert len(reasons(caplog)) == 2


def test_what_is_no_handshake_is_refused_at_once_with_the_reason(
    files: TlsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = bytes.fromhex("0000001a 0012 0003 00000007 0004 77697265 00 0577697265 0231 00")
    attempts = [kafka, b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"\xff" * 4096]

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            for number, data in enumerate(attempts, 1):
                with gate.silent() as peer:
                    peer.sendall(data)
                    await eventually(lambda count=number: gate.failed == count)  # type: ignore[misc]
            with gate.silent():
                pass  # hangs up
            await eventually(lambda: gate.failed == len(attempts) + 1)

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    said = reasons(caplog)
    assert len(said) == len(attempts) + 1
    assert "the client does not speak TLS: its security.protocol must be SSL or SASL_SSL" in said[0]
    assert "does not speak TLS" in said[1]
    assert "closed by the peer" in said[-1]


def test_a_client_that_is_refused_or_refuses_is_named_with_the_reason(
    files: TlsFolder, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    theirs = stranger.sign("theirs")
    with_theirs = files.client_context()
    with_theirs.load_cert_chain(theirs.certificate, theirs.key)
    old = files.client_context(shows_certificate=True)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    distrusting = ssl.create_default_context(cafile=str(stranger.certificate))
    contexts = [files.client_context(), with_theirs, old, distrusting]

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files, "required") as gate:
            for number, context in enumerate(contexts, 1):
                with contextlib.suppress(OSError):
                    client = await gate.client(context)
                    client.close()
                await eventually(lambda count=number: gate.failed == count)  # type: ignore[misc]
            client = await gate.client(files.client_context(shows_certificate=True))
            await eventually(lambda: len(gate.secured) == 1)
            client.close()

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    no_certificate, stranger_said, old_said, distrust_said = reasons(caplog)
    assert "shows no certificate, and ssl.client.auth is required" in no_certificate
    assert "certificate is not accepted" in stranger_said
    assert "unsupported protocol" in old_said
    assert "does not accept the certificate of this node" in distrust_said


def test_clients_with_certificates_of_no_value_are_refused_with_the_reason(
    files: TlsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is withdrawn is one whose authority is no longer in the truststore: a stranger's."""
    authority = files.authority
    hosts = ["client"]
    expected = {
        "expired": (authority.sign_between("expired", hosts, -2, -1), "expired"),
        "early": (authority.sign_between("early", hosts, 1, 2), "not yet valid"),
        "own": (Authority(files.folder / "own", "own").itself, "self-signed"),
    }
    said_of: dict[str, str] = {}

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files, "required") as gate:
            for number, (name, (made, _)) in enumerate(expected.items(), 1):
                context = files.client_context()
                context.load_cert_chain(made.certificate, made.key)
                with contextlib.suppress(OSError):
                    (await gate.client(context)).close()
                await eventually(lambda count=number: gate.failed == count)  # type: ignore[misc]
                said_of[name] = reasons(caplog)[-1]

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    for name, (_, reason) in expected.items():
        assert "certificate is not accepted" in said_of[name]
        assert reason in said_of[name]


def test_clients_that_offer_only_what_is_weak_are_refused_with_the_reason(
    files: TlsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    weak = files.client_context()
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("NULL-SHA256:ECDHE-ECDSA-NULL-SHA:@SECLEVEL=0")
    sslv2 = bytes.fromhex("802e 0100 0200 1500 0000 10 0700c0 030080 010080 060040") + bytes(26)
    sslv3 = (
        bytes.fromhex("16 0300 002d 01 000029 0300")
        + bytes(32)
        + bytes.fromhex("00 0002 000a 0100")
    )

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            with pytest.raises(ssl.SSLError):
                await gate.client(weak)
            for number, hello in enumerate((sslv2, sslv3), 2):
                with gate.silent() as peer:
                    peer.sendall(hello)
                    await eventually(lambda count=number: gate.failed == count)  # type: ignore[misc]
            assert not gate.secured

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    weak_said, *old_said = reasons(caplog)
    assert "knows no cipher suite of ssl.cipher.suites" in weak_said
    for said in old_said:
        assert "knows no version of TLS of ssl.enabled.protocols" in said


def test_handshakes_that_only_grow_are_ended(
    files: TlsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """A hello of 130 KB, in records of 16 KB."""

    def record(data: bytes) -> bytes:
        return b"\x16\x03\x03" + len(data).to_bytes(2, "big") + data

    hello = b"\x01" + (130_000).to_bytes(3, "big") + b"\x03\x03" + bytes(16_000)
    sent = record(hello) + record(bytes(16_000)) * 6

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            with gate.silent() as peer:
                await asyncio.to_thread(peer.sendall, sent)
                await eventually(lambda: gate.failed == 1)
            assert gate.handshakes.received_bytes == 0
            client = await gate.client(files.client_context())
            await eventually(lambda: len(gate.secured) == 1)
            client.close()
            assert gate.handshakes.received_bytes == 0

    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    assert any("not complete after" in said for said in reasons(caplog))


def test_the_oldest_of_too_many_unfinished_handshakes_makes_room(
    files: TlsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKES_MAX", 20)

    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            idle = [gate.silent() for _ in range(50)]
            await eventually(lambda: gate.failed == 30)
            client = await gate.client(files.client_context())
            await eventually(lambda: len(gate.secured) == 1)
            client.close()
            for one in idle:
                one.close()

    run(main)


def test_a_client_is_named_by_its_certificate_and_the_rules(files: TlsFolder) -> None:
    async def main(runtime: OsRuntime) -> list[str]:
        async with open_gate(runtime, files, "requested") as gate:
            named = []
            for rules, shows in (
                ("DEFAULT", False),
                ("DEFAULT", True),
                ("RULE:^CN=(.*)$/$1@tls/U", True),
                ("RULE:^CN=nobody$/x/", True),
            ):
                settings = replace(gate.tls.material.settings, principal_rules=rules)
                gate.tls.material = replace(gate.tls.material, settings=settings)
                count = len(gate.secured)
                client = await gate.client(files.client_context(shows_certificate=shows))
                await eventually(lambda before=count: len(gate.secured) > before)  # type: ignore[misc]
                try:
                    named.append(str(gate.tls.principal_of(gate.secured[-1])))  # type: ignore[arg-type]
                except NoPrincipal as error:
                    named.append(str(error))
                client.close()
            return named

    *named, refused = run(main)
    assert named == ["User:ANONYMOUS", "User:CN=client", "User:CLIENT@TLS"]
    assert refused == "no rule of ssl.principal.mapping.rules matches CN=client"


def test_failures_are_logged_at_a_bounded_rate(
    files: TlsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with open_gate(runtime, files) as gate:
            for number in range(200):
                with gate.silent() as peer:
                    peer.sendall(b"\xff" * 16)
                    await eventually(lambda count=number + 1: gate.failed == count)  # type: ignore[misc]

    loop_time = asyncio.new_event_loop()
    began = loop_time.time()
    with caplog.at_level(logging.INFO, "ottla.network"):
        run(main)
    seconds = int(loop_time.time() - began) + 2
    loop_time.close()
    assert len(reasons(caplog)) <= seconds * FAILURES_LOGGED_PER_S_MAX
