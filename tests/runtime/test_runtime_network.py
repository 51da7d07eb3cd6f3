"""Real sockets, on uvloop and on asyncio's own loop."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ottla.runtime import os_network
from ottla.runtime.disk import FileSlice
from ottla.runtime.network import Socket
from ottla.runtime.os_disk import IOV_MAX
from ottla.runtime.os_runtime import OsRuntime

Main = Callable[[OsRuntime], Coroutine[Any, Any, None]]
Run = Callable[[Main], None]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def within(main: Main) -> None:
        runtime = OsRuntime()
        try:
            async with asyncio.timeout(20):
                await main(runtime)
        finally:
            await runtime.close()

    def start(main: Main) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(within(main))

    return start


async def until(condition: Callable[[], object]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError("what the test waits for did not happen within 5 s")


def ready(register: Callable[[Callable[[], None] | None], None]) -> Awaitable[None]:
    """A future for the next readiness callback of a socket."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def happened() -> None:
        register(None)
        if not future.done():
            future.set_result(None)

    register(happened)
    return future


async def receive(sock: Socket, count: int) -> bytes:
    data = bytearray(count)
    got = 0
    while got < count:
        try:
            size = sock.recv_into(memoryview(data)[got:])
        except BlockingIOError:
            await ready(sock.on_readable)
            continue
        if size == 0:
            break
        got += size
    return bytes(data[:got])


async def pair(runtime: OsRuntime, host: str = "127.0.0.1") -> tuple[Socket, Socket]:
    accepted: list[Socket] = []
    listener = runtime.network.listen(host, 0, accepted.append)
    client = await runtime.network.connect(host, listener.address[1])
    await until(lambda: accepted)
    listener.close()
    return client, accepted[0]


def test_bytes_and_addresses_arrive_at_the_other_side(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        assert client.peer == server.local
        assert client.local == server.peer
        assert client.send([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 6
        assert await receive(server, 6) == b"abcdef"
        with pytest.raises(BlockingIOError):
            server.recv_into(memoryview(bytearray(1)))
        client.close()
        assert await receive(server, 1) == b""
        server.close()

    run(main)


def test_a_full_socket_blocks_and_is_writable_again_once_drained(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        data = os.urandom(8 << 20)
        sent = blocked = 0

        async def write_all() -> None:
            nonlocal sent, blocked
            while sent < len(data):
                try:
                    sent += client.send([memoryview(data)[sent:]])
                except BlockingIOError:
                    blocked += 1
                    await ready(client.on_writable)

        writing = asyncio.create_task(write_all())
        assert await receive(server, len(data)) == data
        await writing
        assert blocked > 0
        client.close()
        server.close()

    run(main)


def test_more_buffers_than_the_kernel_takes_are_sent_in_part(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        assert client.send([b"x"] * (IOV_MAX + 5)) == IOV_MAX
        assert await receive(server, IOV_MAX) == b"x" * IOV_MAX
        client.close()
        server.close()

    run(main)


def test_send_file_moves_a_range_of_a_file(run: Run, tmp_path: Path) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        file = runtime.disk.open(str(tmp_path / "segment"), create=True)
        data = os.urandom(3 << 20)
        file.write_at(0, [data])
        part = FileSlice(file, 1000, len(data) - 2000)

        async def write_all() -> None:
            while part.count:
                try:
                    sent = server.send_file(part)
                except BlockingIOError:
                    await ready(server.on_writable)
                    continue
                part.offset += sent
                part.count -= sent

        writing = asyncio.create_task(write_all())
        assert await receive(client, len(data) - 2000) == data[1000:-1000]
        await writing
        assert server.send_file(FileSlice(file, len(data), 10)) == 0, "the file has ended"
        client.close()
        server.close()

    run(main)


def test_readiness_is_level_triggered_and_stops_when_told(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        calls: list[None] = []
        server.on_readable(lambda: calls.append(None))
        await asyncio.sleep(0.01)
        assert not calls
        client.send([b"unread"])
        await until(lambda: len(calls) >= 3)
        server.on_readable(None)
        seen = len(calls)
        await asyncio.sleep(0.01)
        assert len(calls) == seen
        client.close()
        server.close()

    run(main)


def test_close_within_a_callback_stops_both_directions_and_is_idempotent(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        client, server = await pair(runtime)
        calls: list[str] = []

        def close(side: str) -> None:
            calls.append(side)
            server.close()
            server.close()

        client.send([b"x"])
        await asyncio.sleep(0.01)
        server.on_readable(lambda: close("read"))
        server.on_writable(lambda: close("write"))
        await asyncio.sleep(0.02)
        assert len(calls) == 1
        server.on_readable(lambda: None)  # after closing: nothing to watch, no error
        with pytest.raises(OSError, match="descriptor"):
            server.send([b"x"])
        client.close()

    run(main)


def test_a_port_in_use_is_refused_with_its_address_named(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        first = runtime.network.listen("127.0.0.1", 0, lambda _: None)
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{first.address[1]}") as caught:
            runtime.network.listen("127.0.0.1", first.address[1], lambda _: None)
        assert caught.value.errno == errno.EADDRINUSE
        first.close()
        runtime.network.listen("127.0.0.1", first.address[1], lambda _: None).close()

    run(main)


def test_connecting_to_nobody_is_refused(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        listener = runtime.network.listen("127.0.0.1", 0, lambda _: None)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await runtime.network.connect("127.0.0.1", listener.address[1])
        with pytest.raises(OSError, match=r".+"):
            await runtime.network.connect("no-such-host.invalid", 1)

    run(main)


def test_an_address_that_this_machine_cannot_have_does_not_hide_a_refusal(run: Run) -> None:
    """As with "localhost" where it names ::1, too, and IPv6 is switched off."""

    class TwoAddresses:
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self.sock_connect = loop.sock_connect

        async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
            return [
                (0x7FFF, socket.SOCK_STREAM, 0, "", ("::1", port)),
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)),
            ]

    async def main(runtime: OsRuntime) -> None:
        listener = runtime.network.listen("127.0.0.1", 0, lambda _: None)
        listener.close()
        network: Any = runtime.network
        network._loop = TwoAddresses(asyncio.get_running_loop())
        with pytest.raises(ConnectionRefusedError):
            await network.connect("127.0.0.1", listener.address[1])

    run(main)


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize("host", ["", "::"])
def test_every_address_means_those_of_both_families_with_one_port(run: Run, host: str) -> None:
    async def main(runtime: OsRuntime) -> None:
        accepted: list[Socket] = []
        listener = runtime.network.listen(host, 0, accepted.append)
        port = listener.address[1]
        four = await runtime.network.connect("127.0.0.1", port)
        six = await runtime.network.connect("::1", port)
        await until(lambda: len(accepted) == 2)
        assert sorted(sock.peer[0] for sock in accepted) == ["127.0.0.1", "::1"]
        for sock in (four, six, *accepted):
            sock.close()
        listener.close()

    run(main)


def test_one_port_serves_every_address_of_a_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def two_addresses(host: str, *args: Any, **kwargs: Any) -> list[Any]:
        if host != "both":
            return real(host, *args, **kwargs)
        return [*real("127.0.0.1", *args, **kwargs), *real("127.0.0.2", *args, **kwargs)]

    monkeypatch.setattr(os_network.socket, "getaddrinfo", two_addresses)

    async def main(runtime: OsRuntime) -> None:
        try:
            listener = runtime.network.listen("both", 0, lambda sock: sock.close())
        except OSError:
            pytest.skip("this machine has one loopback address only")
        for host in ("127.0.0.1", "127.0.0.2"):
            (await runtime.network.connect(host, listener.address[1])).close()
        listener.close()

    run(main)


def test_the_host_name_told_to_clients_resolves_here(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(runtime: OsRuntime) -> None:
        socket.getaddrinfo(runtime.network.host_name(), None)
        monkeypatch.setattr(os_network.socket, "getfqdn", lambda: "no-such-host.invalid")
        assert runtime.network.host_name() == "localhost"

    run(main)


def test_a_paused_listener_leaves_connections_in_the_queue(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        accepted: list[Socket] = []
        listener = runtime.network.listen("127.0.0.1", 0, accepted.append)
        listener.pause()
        client = await runtime.network.connect("127.0.0.1", listener.address[1])
        await asyncio.sleep(0.02)
        assert not accepted
        listener.resume()
        await until(lambda: accepted)
        client.close()
        accepted[0].close()
        listener.close()

    run(main)


def test_pausing_from_the_callback_stops_accepting_at_once(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        accepted: list[Socket] = []

        def take_one(sock: Socket) -> None:
            accepted.append(sock)
            listener.pause()

        listener = runtime.network.listen("127.0.0.1", 0, take_one)
        listener.pause()
        clients = [
            await runtime.network.connect("127.0.0.1", listener.address[1]) for _ in range(3)
        ]
        for taken in (1, 2, 3):
            listener.resume()
            await until(lambda wanted=taken: len(accepted) >= wanted)
            await asyncio.sleep(0.01)
            assert len(accepted) == taken
        for sock in (*clients, *accepted):
            sock.close()
        listener.close()

    run(main)


def test_running_out_of_descriptors_pauses_accepting_and_recovers(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os_network, "ACCEPT_PAUSE_S", 0.05)
    attempts: list[None] = []
    real = socket.socket.accept

    def none_left(sock: socket.socket) -> Any:
        attempts.append(None)
        if len(attempts) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(sock)

    monkeypatch.setattr(socket.socket, "accept", none_left)

    async def main(runtime: OsRuntime) -> None:
        accepted: list[Socket] = []
        listener = runtime.network.listen("127.0.0.1", 0, accepted.append)
        client = await runtime.network.connect("127.0.0.1", listener.address[1])
        await asyncio.sleep(0.02)
        assert len(attempts) == 1
        await until(lambda: accepted)
        client.close()
        accepted[0].close()
        listener.close()

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "Too many open files; trying again in" in caplog.text


def test_a_failing_accept_callback_costs_only_its_connection(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: OsRuntime) -> None:
        def refuse(_: Socket) -> None:
            raise RuntimeError("no room")

        listener = runtime.network.listen("127.0.0.1", 0, refuse)
        for _ in range(2):
            client = await runtime.network.connect("127.0.0.1", listener.address[1])
            assert await receive(client, 1) == b""
            client.close()
        listener.close()

    run(main)
    assert caplog.text.count("no room") >= 2


def test_a_cancelled_connect_closes_its_socket(run: Run) -> None:
    async def main(runtime: OsRuntime) -> None:
        before = threading.active_count(), len(os.listdir("/proc/self/fd"))
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.05):
                # TEST-NET-1: no route, or an answer that never comes.
                await runtime.network.connect("192.0.2.1", 9)
        assert len(os.listdir("/proc/self/fd")) <= before[1]

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to count descriptors")
    run(main)
