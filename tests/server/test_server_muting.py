"""A client over its quota: the answer comes at once, and the next request is served later."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from scripted_connection import Echo, FakeServer, ScriptedSocket, answers, connect, frame

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.server.connections.connection import Connection
from ottla.broker.server.connections.meter import log_throttled
from ottla.broker.server.pending import Pending
from ottla.security.principal import ANONYMOUS

USER = (("user", ANONYMOUS.name),)
WORK_S = 0.5
THROTTLE_S = 1.0
"""The most for request time: one window."""


@pytest.fixture
def busy() -> tuple[ScriptedSocket, FakeServer, Connection]:
    """Each request takes half a second; the user may have one percent of the time."""
    server = FakeServer()
    server.quotas.take({USER: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})

    def work(context: Any, body: bytes) -> Echo:
        server.time_s += WORK_S
        return Echo(body)

    server.route.handle = work
    return connect(server)


Busy = tuple[ScriptedSocket, FakeServer, Connection]


def test_the_answer_comes_first_and_the_next_request_waits(busy: Busy) -> None:
    socket, server, connection = busy
    socket.feed(frame(1, b"a") + frame(2, b"b"), frame(3, b"c"))
    assert answers(bytes(socket.sent)) == [(1, b"a")]
    assert server.route.served == [b"a"]
    server.wait(THROTTLE_S - 0.01)
    assert server.route.served == [b"a"]
    server.wait(0.01)
    assert answers(bytes(socket.sent)) == [(1, b"a"), (2, b"b")]
    server.wait(THROTTLE_S)
    socket.feed()
    assert [body for _, body in answers(bytes(socket.sent))] == [b"a", b"b", b"c"]


def test_a_muted_connection_is_not_read_beyond_one_buffer(busy: Busy) -> None:
    socket, server, connection = busy
    socket.feed(frame(1, b"a"), frame(2, b"b"), frame(3, b"c"), frame(4, b"d"))
    assert socket.incoming, "the kernel keeps what is not read, and stops the client"


def test_a_muted_connection_is_not_idle(busy: Busy) -> None:
    socket, server, connection = busy
    socket.feed(frame(1, b"a"))
    assert connection.is_waiting
    server.wait(THROTTLE_S)
    assert not connection.is_waiting
    assert connection.last_active == server.time_s


def test_closing_a_muted_connection_stops_its_timer(busy: Busy) -> None:
    socket, server, connection = busy
    socket.feed(frame(1, b"a") + frame(2, b"b"))
    connection.close("the test says so")
    server.wait(THROTTLE_S)
    assert server.route.served == [b"a"]
    assert not server.timers


def test_requests_of_other_nodes_are_not_charged(busy: Busy) -> None:
    socket, server, connection = busy
    socket.feed(frame(1, b"of a node") + frame(2, b"of a node"))
    assert len(answers(bytes(socket.sent))) == 2
    assert not server.timers
    *_, exempt = server.quotas.metrics()
    assert exempt.name == "exempt-request-time"
    assert exempt.value == pytest.approx(2 * WORK_S * 100 / 10, rel=0.1), "of ten windows"


def test_answers_to_earlier_requests_do_not_wait_for_the_end_of_a_mute() -> None:
    server = FakeServer()
    server.quotas.take({USER: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})
    waiting: list[Pending] = []

    class Unhurried(Pending):
        holds_connection = False

    def handle(context: Any, body: bytes) -> Pending:
        server.time_s += WORK_S
        waiting.append(Unhurried())
        return waiting[-1]

    server.route.handle = handle
    socket, _, _ = connect(server)
    socket.feed(frame(1, b"a") + frame(2, b"b"))
    assert len(waiting) == 2, "the first is not settled before its answer is there"
    waiting[0].resolve(Echo(b"a"))
    assert answers(bytes(socket.sent)) == [(1, b"a")]
    socket.feed(frame(3, b"c"))
    waiting[1].resolve(Echo(b"b"))
    assert answers(bytes(socket.sent)) == [(1, b"a"), (2, b"b")]
    assert len(waiting) == 2, "the third waits for the end of both mutes"
    server.wait(THROTTLE_S)
    assert len(waiting) == 3


def test_an_error_is_charged_like_an_answer() -> None:
    server = FakeServer()
    server.quotas.take({USER: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})

    def fail(context: Any, body: bytes) -> Echo:
        server.time_s += WORK_S
        raise ValueError("as the test asks for")

    server.route.handle = fail
    server.route.error_response = lambda error: Echo(b"failed")  # type: ignore[method-assign]
    socket, _, _ = connect(server)
    socket.feed(frame(1, b"a") + frame(2, b"b"))
    assert answers(bytes(socket.sent)) == [(1, b"failed")]


def test_clients_without_a_quota_have_no_meter() -> None:
    server = FakeServer()
    server.quotas.take({(("user", "somebody else"),): {QuotaKey.REQUEST_PERCENTAGE: 1.0}})

    def work(context: Any, body: bytes) -> Echo:
        server.time_s += WORK_S
        return Echo(body)

    server.route.handle = work
    socket, _, _ = connect(server)
    socket.feed(b"".join(frame(number, b"x") for number in range(5)))
    assert len(answers(bytes(socket.sent))) == 5
    socket.feed(frame(6, b"of a node"))
    (exempt,) = server.quotas.metrics()
    assert exempt.value == pytest.approx(WORK_S * 100 / 10)


def test_a_quota_counts_for_connections_that_are_open_already() -> None:
    server = FakeServer()
    socket, _, _ = connect(server)

    def work(context: Any, body: bytes) -> Echo:
        server.time_s += WORK_S
        return Echo(body)

    server.route.handle = work
    socket.feed(frame(1, b"a") + frame(2, b"b"))
    assert len(answers(bytes(socket.sent))) == 2
    server.quotas.take({USER: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})
    socket.feed(frame(3, b"c") + frame(4, b"d"))
    assert len(answers(bytes(socket.sent))) == 3
    server.quotas.take({})
    server.wait(THROTTLE_S)
    assert len(answers(bytes(socket.sent))) == 4


def test_the_log_says_who_is_throttled(busy: Busy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.quotas")
    _, server, _ = busy
    server.quotas = ClientQuotas(QuotaWindows(11, 1), server.now, log_throttled)
    server.quotas.take({USER: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})
    socket, _, _ = connect(server)
    socket.feed(frame(1, b"a"))
    (line,) = caplog.records
    assert vars(line)["fields"] == {
        "quota": "request_percentage",
        "limit": 1.0,
        "throttle_ms": 1_000,
        "user": ANONYMOUS.name,
    }
    log_throttled({"client_id": "x" * 32_000})
    assert len(vars(caplog.records[1])["fields"]["client_id"]) < 350
