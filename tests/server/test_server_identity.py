"""Every request knows who sent it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from test_server_connection import Echo, connect, frame

from ottla.broker.server.caller import UNKNOWN_SOFTWARE, Caller, ClientSoftware
from ottla.broker.server.context import RequestContext
from ottla.broker.server.contract import CannotTell
from ottla.broker.server.handlers import api_versions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.security.principal import ANONYMOUS, KafkaPrincipal


def test_requests_of_a_connection_have_one_caller() -> None:
    socket, server, connection = connect()
    seen: list[Any] = []

    def handle(context: Any, body: bytes) -> Echo:
        seen.append(context)
        return Echo(body)

    server.route.handle = handle
    socket.feed(frame(1, b"a") + frame(2, b"b"))
    assert [context.caller for context in seen] == [connection.caller] * 2
    caller = seen[0].caller
    assert (caller.host, caller.port) == socket.peer
    assert caller.listener_name == caller.security_protocol == "PLAINTEXT"
    assert str(caller.principal) == "User:ANONYMOUS"
    assert not caller.principal.token_authenticated
    assert (seen[0].api_key, seen[0].api_version, seen[0].client_id) == (5, 0, None)


def test_a_client_that_signs_in_is_another_caller_from_then_on() -> None:
    socket, server, connection = connect()
    seen: list[Any] = []
    server.route.handle = lambda context, body: seen.append(context) or Echo(body)
    socket.feed(frame(1, b"before"))
    alice = KafkaPrincipal("User", "alice")
    connection.caller = Caller(alice, socket.peer, "PLAINTEXT", connection_id=1)
    socket.feed(frame(2, b"after"))
    assert [context.caller.principal for context in seen] == [ANONYMOUS, alice]


def test_api_versions_names_the_software_of_the_client() -> None:
    metadata = SimpleNamespace(
        image=SimpleNamespace(offset=1, features={}), quorum=SimpleNamespace(kraft_version=0)
    )
    services: Any = SimpleNamespace(
        metadata=metadata,
        config={"unstable.api.versions.enable": False},
        controller_link=SimpleNamespace(controller_versions=lambda: None),
    )
    caller = Caller(ANONYMOUS, ("127.0.0.1", 1), "PLAINTEXT")
    assert caller.software == UNKNOWN_SOFTWARE
    context = RequestContext(18, 3, "client", caller, services)
    odd = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    assert api_versions.handle(context, odd).error_code == ErrorCode.INVALID_REQUEST
    assert caller.software == UNKNOWN_SOFTWARE
    named = ApiVersionsRequest(client_software_name="ottla", client_software_version="1.2")
    assert api_versions.handle(context, named).error_code == ErrorCode.NONE
    assert caller.software == ClientSoftware("ottla", "1.2")


def test_a_failure_that_no_answer_can_tell_closes_the_connection(caplog: Any) -> None:
    socket, server, connection = connect()

    def handle(context: Any, body: bytes) -> Echo:
        raise CannotTell("acks=0 and NOT_LEADER_OR_FOLLOWER")

    server.route.handle = handle
    socket.feed(frame(1, b"a"))
    assert connection.is_closed
    assert not socket.sent
    assert "failed inside the broker" not in caplog.text
