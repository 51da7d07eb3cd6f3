"""The pages' HTTP server, asked over real sockets by good and bad clients."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest

from ottla.metrics import http
from ottla.metrics.http import Asked, HttpServer, Page, plain
from ottla.runtime.os_runtime import OsRuntime, run

LONG = b"x" * 3_000_000


async def answer(asked: Asked) -> Page:
    if asked.path == "/long":
        return Page(200, "text/plain", LONG)
    if asked.path == "/slow":
        await asyncio.sleep(0.2)
    if asked.path == "/fails":
        raise RuntimeError("a secret reason")
    return plain(200, f"you asked for {asked.path}")


Play = Callable[[HttpServer], Awaitable[None]]


def on_server(play: Play) -> None:
    async def main(runtime: OsRuntime) -> None:
        server = HttpServer(runtime, "127.0.0.1", 0, answer)
        try:
            async with asyncio.timeout(30):
                await play(server)
        finally:
            server.close()

    run(main)


async def ask(server: HttpServer, request: bytes) -> bytes:
    """Return everything that the server says until it closes the connection."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(request)
    said = await reader.read()
    writer.close()
    return said


def test_a_page_is_served_and_the_connection_kept() -> None:
    async def play(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        for number in range(3):
            writer.write(b"GET /page%d?x=y HTTP/1.1\r\nHost: a\r\n\r\n" % number)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            body = f"you asked for /page{number}\n".encode()
            assert f"Content-Length: {len(body)}\r\n".encode() in head
            assert await reader.readexactly(len(body)) == body
        writer.close()

    on_server(play)


def test_requests_in_a_row_are_answered_in_order_and_in_pieces() -> None:
    async def play(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        request = b"GET /slow HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n"
        for at in range(0, len(request), 7):
            writer.write(request[at : at + 7])
            await asyncio.sleep(0.002)
        said = await reader.read()
        assert said.index(b"for /slow") < said.index(b"for /b")
        assert said.count(b"HTTP/1.1 200 OK") == 2
        writer.close()

    on_server(play)


def test_a_long_page_is_packed_if_the_client_takes_that() -> None:
    async def play(server: HttpServer) -> None:
        end = b"Connection: close\r\n\r\n"
        said = await ask(server, b"GET /long HTTP/1.1\r\nAccept-Encoding: gzip, br\r\n" + end)
        head, _, body = said.partition(b"\r\n\r\n")
        assert b"Content-Encoding: gzip" in head
        assert gzip.decompress(body) == LONG
        said = await ask(server, b"GET /long HTTP/1.0\r\n\r\n")
        assert said.partition(b"\r\n\r\n")[2] == LONG
        said = await ask(server, b"HEAD /long HTTP/1.1\r\n" + end)
        assert said.endswith(b"\r\n\r\n")
        assert f"Content-Length: {len(LONG)}".encode() in said

    on_server(play)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", 400),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: header\r\n\r\n", 400),
        (b"\x00\x00\x00\x12 garbage\r\n\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n", 431),
    ],
)
def test_what_is_no_request_for_a_page_is_refused(request_bytes: bytes, status: int) -> None:
    async def play(server: HttpServer) -> None:
        said = await ask(server, request_bytes)
        assert said.startswith(b"HTTP/1.1 %d " % status)
        assert b"Connection: close" in said

    on_server(play)


def test_a_page_that_fails_says_so_and_not_why() -> None:
    async def play(server: HttpServer) -> None:
        said = await ask(server, b"GET /fails HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"secret" not in said

    on_server(play)


def test_silent_connections_make_room_for_new_ones() -> None:
    async def play(server: HttpServer) -> None:
        silent = [
            await asyncio.open_connection(*server.address) for _ in range(http.CONNECTIONS_MAX + 5)
        ]
        said = await ask(server, b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 OK")
        assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()

    on_server(play)


def test_a_request_that_does_not_end_and_an_answer_that_is_not_read_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_S_MAX", 0.2)

    async def play(server: HttpServer) -> None:
        assert await ask(server, b"GET /a HTTP/1.1\r\n") == b""
        reader, writer = await asyncio.open_connection(*server.address, limit=1024)
        writer.write(b"GET /long HTTP/1.1\r\n\r\n" * 4)
        await asyncio.sleep(0.6)
        said = await reader.read()
        assert len(said) < 4 * len(LONG)
        writer.close()

    on_server(play)
