"""The proxy through which tests make networks fail, shown with plain sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fault_proxy import FaultProxy, Link

TIMEOUT_S = 5.0


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listening.getsockname()
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(TIMEOUT_S)


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[FaultProxy]:
    with FaultProxy(echo) as made:
        yield made


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_S)


def ask(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return receive(client, len(data))


def receive(client: socket.socket, count: int) -> bytes:
    """What comes until there are `count` bytes, or the end."""
    found = b""
    while len(found) < count and (data := client.recv(count - len(found))):
        found += data
    return found


def is_silent(client: socket.socket, for_s: float = 0.15) -> bool:
    client.settimeout(for_s)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(TIMEOUT_S)
    return False


def test_bytes_pass_both_ways(proxy: FaultProxy) -> None:
    data = bytes(range(256)) * 4000
    with connect(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert receive(client, len(data)) == data
        sender.join(TIMEOUT_S)
    assert proxy.accepted_count == 1
    assert proxy.passed_bytes == {"to_broker": len(data), "to_client": len(data)}


def test_a_cut_ends_every_connection_and_lets_new_ones_in(proxy: FaultProxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        assert ask(one, b"a") == ask(other, b"a") == b"a"
        assert proxy.cut() == 2
        for client in (one, other):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
    with connect(proxy) as client:
        assert ask(client, b"b") == b"b"


@pytest.mark.parametrize("count", [1, 7, 99])
def test_a_cut_after_some_bytes_lets_exactly_these_arrive_and_is_spent(
    proxy: FaultProxy, count: int
) -> None:
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        proxy.cut_after(count)
        client.sendall(b"x" * 100)
        assert receive(client, 100) == b"x" * count
    with connect(proxy) as client:
        assert ask(client, b"y" * 500) == b"y" * 500


def test_a_connection_that_is_gone_already_is_cut_without_an_error(echo: tuple[str, int]) -> None:
    async def cut_twice() -> None:
        _, writer = await asyncio.open_connection(*echo)
        link = Link(writer)
        link.close(reset=True)
        await asyncio.sleep(0.01)
        link.close(reset=True)

    asyncio.run(cut_twice())


def test_a_stalled_proxy_accepts_and_says_nothing_until_it_is_healed(proxy: FaultProxy) -> None:
    proxy.stall()
    with connect(proxy) as client:
        client.sendall(b"hello")
        assert is_silent(client)
        proxy.heal()
        assert receive(client, 5) == b"hello"


def test_one_way_can_be_stalled_alone(proxy: FaultProxy) -> None:
    with connect(proxy) as client:
        proxy.stall("to_client")
        client.sendall(b"hello")
        assert is_silent(client)
        assert proxy.passed_bytes == {"to_broker": 5, "to_client": 0}


def test_a_delay_holds_bytes_back(proxy: FaultProxy) -> None:
    proxy.delay(0.1)
    with connect(proxy) as client:
        started = time.monotonic()
        assert ask(client, b"hello") == b"hello"
        assert time.monotonic() - started >= 0.2


def test_bytes_dribble_in_small_pieces(proxy: FaultProxy) -> None:
    proxy.dribble(2, 0.02)
    with connect(proxy) as client:
        client.sendall(b"0123456789")
        started = time.monotonic()
        assert receive(client, 10) == b"0123456789"
        assert time.monotonic() - started >= 0.08


def test_refused_connections_are_taken_again_on_the_same_port(proxy: FaultProxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert ask(client, b"a") == b"a", "an open connection stays"
        proxy.accept()
        with connect(proxy) as another:
            assert ask(another, b"b") == b"b"


def test_without_a_target_connections_are_swallowed() -> None:
    with FaultProxy() as proxy, connect(proxy) as client:
        client.sendall(b"anybody?")
        assert is_silent(client)


def test_a_target_that_is_down_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        target = listening.getsockname()
    with FaultProxy(target) as proxy, connect(proxy) as client:
        assert client.recv(1) == b""
