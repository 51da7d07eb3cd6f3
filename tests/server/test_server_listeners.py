"""Listeners that come and go while the broker runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from bench.brokers import Broker, answers, free_port

from broker_harness import MakeBroker
from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest

pytestmark = pytest.mark.ottla_only

MAP = "listener.security.protocol.map"


def change(wire: Wire, **configs: str | None) -> tuple[int, str]:
    """Set `listeners` and `map`, or remove what is None; the error and its message."""
    names = {"map": MAP}
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name="1",
        configs=[
            AlterableConfig(name=names.get(k, k), config_operation=int(v is None), value=v)
            for k, v in configs.items()
        ],
    )
    (result,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return result.error_code, result.error_message or ""


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def advertised_by(wire: Wire) -> list[int]:
    return [broker.port for broker in wire.ask(MetadataRequest(topics=[]), 9).brokers]


def plain(broker: Broker) -> str:
    return f"PLAINTEXT://{broker.address}"


def test_a_listener_opens_and_closes_and_is_told_to_clients_after_a_restart(
    fresh_broker: MakeBroker,
) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    port = free_port()
    both = f"{plain(broker)},EXTRA://127.0.0.1:{port}"
    protocols = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"
    assert change(wire, listeners=both, map=protocols) == (0, "")
    assert eventually(lambda: answers(port))
    assert advertised_by(wire) == [broker.port]  # other listeners keep what they tell
    assert change(wire, listeners=plain(broker)) == (0, "")
    assert eventually(lambda: not answers(port))
    assert change(wire, listeners=both) == (0, "")
    broker.restart()
    assert answers(port)
    by_extra = Wire(broker, port=port)
    assert advertised_by(by_extra) == [port]
    # What clients were told of may not go any more.
    code, message = change(by_extra, listeners=plain(broker))
    assert code == ErrorCode.INVALID_REQUEST
    assert "EXTRA" in message
    assert "start the broker once with advertised.listeners that leave it out" in message
    for one in (wire, by_extra):
        one.close()
    # ... except as the message says.
    broker.options["advertised.listeners"] = plain(broker)
    broker.restart()
    wire = Wire(broker)
    assert change(wire, listeners=None) == (0, "")
    assert eventually(lambda: not answers(port))
    wire.close()


def test_a_stored_address_that_replaces_the_given_one_is_told_at_each_start(
    fresh_broker: MakeBroker,
) -> None:
    broker = fresh_broker()
    stored = free_port()
    wire = Wire(broker)
    assert change(wire, listeners=f"PLAINTEXT://127.0.0.1:{stored}") == (0, "")
    wire.close()
    assert "replace those" not in broker.output
    given = broker.port
    broker.restart()
    assert broker.port == stored
    (line,) = [line for line in broker.output.splitlines() if "replace those" in line]
    assert "`ottla configs alter --broker 1 --delete listeners` removes them" in line
    assert f"stored=PLAINTEXT://127.0.0.1:{stored}" in line
    assert f"given=PLAINTEXT://127.0.0.1:{given}" in line
    wire = Wire(broker)
    assert change(wire, listeners=None) == (0, "")
    wire.close()
    broker.port = given  # which the harness names at the next start
    broker.restart()
    assert broker.port == given
    assert broker.output.count("replace those") == 1


def test_connections_go_with_their_listener(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    port = free_port()
    both = f"{plain(broker)},EXTRA://127.0.0.1:{port}"
    assert change(wire, listeners=both, map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT") == (0, "")
    assert eventually(lambda: answers(port))
    by_extra = Wire(broker, port=port)
    assert change(wire, listeners=plain(broker)) == (0, "")
    assert by_extra.socket.recv(1) == b""
    assert advertised_by(wire) == [broker.port]
    wire.close()


def test_a_port_that_is_taken_leaves_the_broker_as_it_was(fresh_broker: MakeBroker) -> None:
    broker, other = fresh_broker(), fresh_broker()
    wire = Wire(broker)
    both = f"{plain(broker)},EXTRA://{other.address}"
    assert change(wire, listeners=both, map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT") == (0, "")
    assert eventually(lambda: "cannot open a listener" in broker.output)
    assert advertised_by(wire) == [broker.port]
    wire.close()


def test_listeners_that_cannot_be_are_refused(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    wire = Wire(broker)
    for listeners, part in (
        (f"{plain(broker)},EXTRA://127.0.0.1:0", "must have a protocol"),
        ("nonsense", "expected NAME://host:port"),
        (f"{plain(broker)},PLAINTEXT://127.0.0.1:1", ""),
        ("OTHER://127.0.0.1:0", ""),
    ):
        code, message = change(wire, listeners=listeners)
        assert code == ErrorCode.INVALID_REQUEST, listeners
        assert part in message
    assert change(wire, map="PLAINTEXT:SSL")[0] == ErrorCode.INVALID_REQUEST
    wire.close()
