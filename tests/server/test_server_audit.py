"""The audit log: what it says of refusals, and what it costs to provoke many."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.metadata.image import MetadataImage
from ottla.broker.server.acl_authorizer import AclAuthorizer
from ottla.broker.server.audit import LINES_PER_S_MAX
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.config.authorization import Authorization
from ottla.logs import AUDIT_LOGGER, TEXT_MAX, configure
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.security.acls import AccessControlEntry
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, ResourceType

READ, TOPIC = Operation.READ, ResourceType.TOPIC
ALLOWED = AccessControlEntry(2, "open", 3, "User:*", "*", 3, 3)


class Later:
    """A runtime of which the test moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.clock = SimpleNamespace(now=lambda: self.now)
        self.random = Random(1)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now + delay_s, callback))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [callback for at, callback in self.timers if at <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for callback in due:
            callback()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    root, audit = logging.getLogger(), logging.getLogger(AUDIT_LOGGER)
    levels = {name: logging.getLogger(name).level for name in ("ottla", "ottla.node", AUDIT_LOGGER)}
    before = (root.handlers[:], audit.handlers[:], audit.propagate)
    stream = io.StringIO()
    configure("warning", "human", stream)
    yield stream
    root.handlers[:], audit.handlers[:], audit.propagate = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def authorizer(runtime: Later) -> AclAuthorizer:
    made = AclAuthorizer(runtime, Authorization(frozenset(), allow_if_no_acl=False))  # type: ignore[arg-type]
    loading = made.load(MetadataImage(acls={b"1": ALLOWED}))
    with pytest.raises(StopIteration):
        loading.send(None)
    return made


def asking(name: str = "ann", client_id: str = "c") -> Any:
    caller = Caller(KafkaPrincipal("User", name), ("10.0.0.7", 5), "CLIENTS", connection_id=3)
    return RequestContext(ApiKey.FETCH, 17, client_id, caller, None, 42)  # type: ignore[type-var]


def test_a_refusal_is_a_line_of_json_with_who_what_and_where(logged: io.StringIO) -> None:
    assert not authorizer(Later()).allows(asking(), READ, TOPIC, "t")
    (line,) = lines(logged)
    assert line.pop("time")
    assert line == {
        "level": "info",
        "logger": "kafka.authorizer.logger",
        "event": "denied",
        "principal": "User:ann",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": "t",
        "host": "10.0.0.7",
        "listener": "CLIENTS",
        "protocol": "PLAINTEXT",
        "api": "Fetch",
        "version": 17,
        "request_id": 42,
        "client_id": "c",
        "connection": 3,
        "rule": "the resource has no ACLs",
    }


def test_before_the_acls_are_loaded_only_super_users_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = AclAuthorizer(Later(), Authorization(frozenset({"User:root"}), True))  # type: ignore[arg-type]
    assert waiting.allows(asking("root"), READ, TOPIC, "t")
    for _ in range(3):
        with pytest.raises(KafkaError, match="not loaded yet"):
            waiting.allows(asking(), READ, TOPIC, "t")
    with pytest.raises(KafkaError, match="not loaded yet"):
        waiting.allows_on_any(asking(), READ, TOPIC)
    assert caplog.text.count("nodes of the cluster belong into super.users") == 1


def test_what_is_allowed_is_shown_only_at_debug(logged: io.StringIO) -> None:
    rights = authorizer(Later())
    assert rights.allows(asking(), READ, TOPIC, "open")
    assert lines(logged) == []
    configure([f"{AUDIT_LOGGER}=debug"], "human", logged)
    assert rights.allows(asking(), READ, TOPIC, "open")
    (line,) = lines(logged)
    assert (line["event"], line["level"]) == ("allowed", "debug")
    assert line["rule"] == "allow User:* from * READ on TOPIC literal open"


def test_what_the_client_did_not_ask_for_by_name_is_no_event(logged: io.StringIO) -> None:
    assert not authorizer(Later()).allows(asking(), READ, TOPIC, "t", quiet=True)
    assert lines(logged) == []
    assert not authorizer(Later()).allows_on_any(asking(), Operation.WRITE, TOPIC)
    assert lines(logged)[0]["resource"] is None


def test_names_cannot_forge_lines_or_flood_them(logged: io.StringIO) -> None:
    rights = authorizer(Later())
    rights.allows(asking("x\n\x1b[2J\u202e", "\r\u2028"), READ, TOPIC, "n" * 30_000)
    text = logged.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    assert text.isascii()
    (line,) = lines(logged)
    assert line["principal"] == "User:x\n\x1b[2J\u202e"
    assert line["resource"] == "n" * TEXT_MAX + "... (30000 characters)"


def test_more_refusals_than_a_second_has_room_for_are_counted(logged: io.StringIO) -> None:
    runtime = Later()
    rights = authorizer(runtime)
    for _ in range(LINES_PER_S_MAX + 50):
        rights.allows(asking(), READ, TOPIC, "t")
    assert len(lines(logged)) == LINES_PER_S_MAX
    runtime.advance(1.5)
    last = lines(logged)[-1]
    assert (last["event"], last["count"]) == ("not logged: more were denied", 50)
    rights.allows(asking(), READ, TOPIC, "t")
    assert len(lines(logged)) == LINES_PER_S_MAX + 2
    runtime.advance(5)
    assert len(lines(logged)) == LINES_PER_S_MAX + 2
