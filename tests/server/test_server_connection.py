"""A connection on a scripted socket: framing, order, backpressure, failure."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_connection import Echo, FakeServer, answers, connect, frame

from ottla.broker.server.connections.answers import HELD_ANSWER_BYTES_MAX, UNANSWERED_REQUESTS_MAX
from ottla.broker.server.connections.failure_log import FAILURES_LOGGED_PER_S_MAX
from ottla.broker.server.pending import Pending
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.disk import FileSlice


@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 400), max_size=30),
)
def test_frames_are_served_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    socket, server, _ = connect()
    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    for cut in cuts:
        socket.feed(*filter(None, [stream[:cut]]))
        stream = stream[cut:]
    socket.feed(*filter(None, [stream]))
    assert answers(bytes(socket.sent)) == list(enumerate(bodies))


def test_a_frame_larger_than_the_shared_buffer_arrives_whole() -> None:
    socket, server, _ = connect()
    body = bytes(range(256)) * 2000
    socket.feed(frame(1, b"before") + frame(2, body) + frame(3, b"after"))
    assert answers(bytes(socket.sent)) == [(1, b"before"), (2, body), (3, b"after")]


@pytest.mark.parametrize("size", [-1, 0, 7, 1025, 2**31 - 1])
def test_an_impossible_frame_size_closes_the_connection_and_reserves_nothing(size: int) -> None:
    for pieces in ([struct.pack(">i", size)], list(map(bytes, zip(struct.pack(">i", size))))):
        socket, server, connection = connect(FakeServer(request_bytes_max=1024))
        socket.feed(*pieces)
        assert socket.closed
        assert server.forgotten == 1
        assert connection.is_closed


def test_a_large_promise_costs_only_what_was_sent() -> None:
    socket, server, connection = connect(FakeServer(request_bytes_max=1 << 30))
    socket.feed(struct.pack(">i", 1 << 29) + b"x" * 100)
    assert connection._partial is not None
    assert len(connection._partial._view) <= 128 * 1024


def test_a_malformed_request_closes_the_connection() -> None:
    socket, _, _ = connect()
    socket.feed(frame(1, b"fine") + frame(2, b"malformed") + frame(3, b"never served"))
    assert answers(bytes(socket.sent)) in ([], [(1, b"fine")])
    assert socket.closed


def test_a_flood_of_broken_frames_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer()
    for _ in range(200):
        socket, _, _ = connect(server)
        socket.feed(struct.pack(">i", -1))
        assert socket.closed
    assert len(caplog.records) == FAILURES_LOGGED_PER_S_MAX
    server.wait(1.0)
    connect(server)[0].feed(struct.pack(">i", -1))
    assert caplog.records[-1].fields["not_logged_before"] == 200 - FAILURES_LOGGED_PER_S_MAX


def test_a_reason_that_quotes_a_client_is_shortened(caplog: pytest.LogCaptureFixture) -> None:
    FakeServer().broken_log.add("x" * 60_000)
    assert len(caplog.records[-1].fields["reason"]) < 1_000


def test_answers_keep_the_order_of_requests_when_an_earlier_one_waits() -> None:
    socket, server, _ = connect()
    waiting: list[Pending] = []

    class Unhurried(Pending):
        holds_connection = False

    def handle(context: Any, body: bytes) -> Any:
        if body.startswith(b"wait"):
            waiting.append(Unhurried())
            return waiting[-1]
        return Echo(body)

    server.route.handle = handle
    socket.feed(frame(1, b"wait") + frame(2, b"b") + frame(3, b"wait") + frame(4, b"d"))
    assert server.route.served == [b"wait", b"b", b"wait", b"d"], "served without waiting"
    assert not socket.sent
    waiting[1].resolve(Echo(b"c"))
    assert not socket.sent
    waiting[0].resolve(Echo(b"a"))
    assert answers(bytes(socket.sent)) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]


def test_a_holding_request_delays_the_serving_of_later_ones() -> None:
    socket, server, _ = connect()
    pending = Pending()
    server.route.handle = lambda context, body: pending if body == b"hold" else Echo(body)
    socket.feed(frame(1, b"hold") + frame(2, b"b"), frame(3, b"c"))
    assert server.route.served == [b"hold"]
    pending.resolve(Echo(b"a"))
    socket.feed()
    assert answers(bytes(socket.sent)) == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_unanswered_requests_of_a_connection_are_bounded() -> None:
    socket, server, _ = connect()
    waiting: list[Pending] = []

    class Unhurried(Pending):
        holds_connection = False

    def handle(context: Any, body: bytes) -> Pending:
        waiting.append(Unhurried())
        return waiting[-1]

    server.route.handle = handle
    count = UNANSWERED_REQUESTS_MAX + 10
    socket.feed(b"".join(frame(number, b"x") for number in range(count)))
    assert len(waiting) == UNANSWERED_REQUESTS_MAX
    for number in range(count):
        waiting[number].resolve(Echo(b"y"))
    assert answers(bytes(socket.sent)) == [(number, b"y") for number in range(count)]


def unhurried_first(server: FakeServer, answer: bytes) -> Pending:
    """The first request waits without holding its connection; all others are answered at once."""

    class Unhurried(Pending):
        holds_connection = False

    first = Unhurried()
    server.route.handle = lambda context, body: first if body == b"wait" else Echo(answer)
    return first


def test_answers_behind_a_waiting_request_are_bounded_by_their_number() -> None:
    socket, server, _ = connect()
    first = unhurried_first(server, b"y")
    count = UNANSWERED_REQUESTS_MAX + 100
    frames = [frame(0, b"wait"), *(frame(number, b"x") for number in range(1, count))]
    socket.feed(b"".join(frames))
    assert len(server.route.served) == UNANSWERED_REQUESTS_MAX
    assert socket.readable is None, "reading is paused"
    first.resolve(Echo(b"a"))
    assert answers(bytes(socket.sent)) == [
        (0, b"a"),
        *((number, b"y") for number in range(1, count)),
    ]
    assert socket.readable is not None


def test_answers_behind_a_waiting_request_are_bounded_by_their_bytes() -> None:
    socket, server, _ = connect()
    answer = b"y" * (HELD_ANSWER_BYTES_MAX // 4)
    first = unhurried_first(server, answer)
    frames = [frame(0, b"wait"), *(frame(number, b"x") for number in range(1, 20))]
    socket.feed(b"".join(frames))
    assert len(server.route.served) == 1 + 5, "as many as fit, and one"
    first.resolve(Echo(b"a"))
    socket.feed()
    while server.soon:
        server.soon.pop(0)()
    assert answers(bytes(socket.sent)) == [
        (0, b"a"),
        *((number, answer) for number in range(1, 20)),
    ]


def test_no_answer_is_sent_for_a_request_that_wants_none() -> None:
    socket, server, _ = connect()
    server.route.handle = lambda context, body: None if body == b"silent" else Echo(body)
    socket.feed(frame(1, b"silent") + frame(2, b"b"))
    assert answers(bytes(socket.sent)) == [(2, b"b")]


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    socket, server, _ = connect()
    socket.room = 10
    socket.feed(frame(1, b"a" * 100))
    assert socket.readable is None, "reading is paused"
    assert socket.writable is not None
    socket.incoming.append(frame(2, b"b"))
    socket.take(1000)
    socket.feed()
    assert answers(bytes(socket.sent)) == [(1, b"a" * 100), (2, b"b")]
    assert socket.writable is None


@given(room=st.lists(st.integers(1, 40), max_size=60))
def test_files_and_buffers_go_out_in_order_through_a_narrow_socket(room: list[int]) -> None:
    class OneFile:
        path = "segment"

        def read_at(self, offset: int, length: int) -> bytes:
            return (b"0123456789" * 20)[offset : offset + length]

    socket, server, _ = connect()
    server.route.encode = lambda response, left: [  # type: ignore[method-assign]
        b"<",
        FileSlice(OneFile(), 5, 100),  # type: ignore[arg-type,list-item]
        b">",
    ]
    socket.room = 3
    socket.feed(frame(1, b"x") + frame(2, b"y"))
    for count in [*room, 10_000]:
        socket.take(count)
    body = b"<" + (b"0123456789" * 20)[5:105] + b">"
    assert answers(bytes(socket.sent)) == [(1, body), (2, body)]


def test_a_file_that_ends_early_closes_the_connection() -> None:
    class EmptyFile:
        path = "segment"

        def read_at(self, offset: int, length: int) -> bytes:
            return b""

    socket, server, _ = connect()
    part = FileSlice(EmptyFile(), 0, 10)  # type: ignore[arg-type]
    server.route.encode = lambda response, left: [part]  # type: ignore[method-assign,list-item]
    socket.feed(frame(1, b"x"))
    assert socket.closed


def test_an_error_of_the_handler_is_answered_where_the_api_has_room_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    socket, server, _ = connect()

    def handle(context: Any, body: bytes) -> Any:
        if body == b"refuse":
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        raise RuntimeError("a bug")

    server.route.handle = handle
    socket.feed(frame(1, b"refuse"))
    assert answers(bytes(socket.sent)) == [(1, b"INVALID_REQUEST")]
    socket.feed(frame(2, b"bug"))
    assert socket.closed, "no room for the error: the client must notice"
    logged = [(record.name, record.levelname, record.message) for record in caplog.records]
    assert logged == [("ottla.server", "ERROR", "a request failed inside the broker")]


def test_a_coroutine_handler_is_answered_and_its_exception_too() -> None:
    async def scenario() -> None:
        socket, server, _ = connect()

        async def handle(context: Any, body: bytes) -> Echo:
            await asyncio.sleep(0)
            if body == b"refuse":
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            return Echo(body)

        server.route.handle = handle
        socket.feed(frame(1, b"a") + frame(2, b"refuse") + frame(3, b"c"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert answers(bytes(socket.sent)) == [(1, b"a"), (2, b"INVALID_REQUEST"), (3, b"c")]

    asyncio.run(scenario())


def test_closing_abandons_what_still_waits() -> None:
    socket, server, connection = connect()
    abandoned = []

    class Watched(Pending):
        def abandon(self) -> None:
            super().abandon()
            abandoned.append(self)

    server.route.handle = lambda context, body: Watched()
    socket.feed(frame(1, b"x"))
    connection.close("test")
    assert len(abandoned) == 1
    abandoned[0].resolve(Echo(b"late"))
    assert not socket.sent


def test_a_client_that_asks_much_and_reads_nothing_is_served_no_further() -> None:
    socket, server, connection = connect()
    server.route.handle = lambda context, body: Echo(b"y" * 10_000)
    socket.room = 0
    socket.feed(b"".join(frame(number, b"x") for number in range(1000)))
    assert len(server.route.served) < 30
    assert socket.readable is None
    socket.take(1 << 30)
    socket.feed()
    assert answers(bytes(socket.sent)) == [(number, b"y" * 10_000) for number in range(1000)]


def test_a_connection_with_much_to_serve_lets_others_have_their_turn() -> None:
    socket, server, _ = connect()
    server.seconds_a_look = 1.0
    socket.feed(b"".join(frame(number, b"x") for number in range(100)))
    turns = 0
    while server.soon:
        server.soon.pop(0)()
        turns += 1
    assert turns >= 5
    assert answers(bytes(socket.sent)) == [(number, b"x") for number in range(100)]
    assert socket.readable is not None


def test_an_answer_that_is_there_before_anyone_waits_for_it_is_not_lost() -> None:
    async def scenario() -> None:
        socket, server, _ = connect()

        async def handle(context: Any, body: bytes) -> Pending:
            pending = Pending()
            asyncio.get_running_loop().call_soon(pending.resolve, Echo(body))
            return pending

        server.route.handle = handle
        socket.feed(frame(1, b"a"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert answers(bytes(socket.sent)) == [(1, b"a")]

    asyncio.run(scenario())
