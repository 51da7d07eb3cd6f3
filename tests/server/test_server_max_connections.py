"""`max.connections`: of the broker, of single listeners, and what nodes' own listener may do. The
same tests pass against Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from bench.brokers import Broker, free_port

from broker_harness import build
from broker_wire import Wire
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest

BROKER_RESOURCE = 4
SET, DELETE = 0, 1
SERVED_S_MAX = 5.0
WAITS_S = 0.3
"""For how long a connection that is not let in stays silent, at least."""
QUESTION = MetadataRequest(topics=[])
MAX = "max.connections"
OF_CLIENTS = f"listener.name.clients.{MAX}"


class Broker2:
    """One with a listener for clients, beside the one by which nodes connect."""

    def __init__(self, broker: Broker, port: int) -> None:
        self.broker = broker
        self.port = port

    def client(self) -> Wire:
        return Wire(self.broker, self.port)

    def node(self) -> Wire:
        return Wire(self.broker)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker2]:
    port = free_port()
    protocols = "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    broker = build(
        tmp_path_factory.mktemp("limited"),
        {
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": "PLAINTEXT",
            OF_CLIENTS: "5",
            MAX: "6",
            "num.network.threads": "1",  # Kafka closes the oldest connection of a thread
            "max.connections.per.ip.overrides": "127.0.0.1:20",
        },
    )
    broker.more_listeners = [f"CLIENTS://127.0.0.1:{port}"]
    try:
        yield Broker2(broker.start(), port)
    finally:
        broker.remove()


@pytest.fixture
def opened() -> Iterator[list[Wire]]:
    wires: list[Wire] = []
    yield wires
    for wire in wires:
        wire.close()


@pytest.fixture
def change(both: Broker2) -> Iterator[Callable[..., None]]:
    """`change({name: value})` sets dynamic settings of the broker; they end with the test."""
    told: dict[str, None] = {}

    def apply(values: dict[str, str | None]) -> None:
        told.update(dict.fromkeys(values))
        wire = both.node()
        resource = AlterConfigsResource(
            resource_type=BROKER_RESOURCE,
            resource_name="1",
            configs=[
                AlterableConfig(
                    name=name, config_operation=DELETE if value is None else SET, value=value
                )
                for name, value in values.items()
            ],
        )
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        wire.close()
        assert answer.responses[0].error_code == 0, answer
        time.sleep(0.3)  # the broker applies it after the answer

    yield apply
    apply(dict(told))


def is_served(wire: Wire, within_s: float = SERVED_S_MAX) -> bool:
    wire.socket.settimeout(within_s)
    try:
        wire.ask(QUESTION, 12)
    except (TimeoutError, AssertionError, OSError):
        return False
    finally:
        wire.socket.settimeout(SERVED_S_MAX)
    return True


def is_closed(wire: Wire, within_s: float = SERVED_S_MAX) -> bool:
    wire.socket.settimeout(within_s)
    try:
        return wire.socket.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def open_clients(both: Broker2, opened: list[Wire], count: int) -> None:
    for _ in range(count):
        opened.append(both.client())
        assert is_served(opened[-1])


def test_a_listener_has_a_limit_of_its_own(both: Broker2, opened: list[Wire]) -> None:
    open_clients(both, opened, 5)
    waiting = both.client()
    opened.append(waiting)
    waiting.send(QUESTION, 12)
    assert not is_closed(waiting, WAITS_S), "it waits, it is not refused"
    other = both.node()
    opened.append(other)
    assert is_served(other), "another listener has room"
    opened[0].close()
    waiting.receive(QUESTION, 12)


def test_a_listener_gets_another_limit_while_it_runs(
    both: Broker2, opened: list[Wire], change: Callable[..., None]
) -> None:
    change({OF_CLIENTS: "2"})
    open_clients(both, opened, 2)
    opened.append(both.client())
    assert not is_served(opened[-1], WAITS_S)
    change({OF_CLIENTS: "3"})
    opened[-1].receive(QUESTION, 12)


def test_nodes_connect_beyond_the_limit_and_clients_unused_for_longest_are_closed(
    both: Broker2, opened: list[Wire]
) -> None:
    open_clients(both, opened, 5)
    assert is_served(opened[0]), "the second is now the one that was unused for longest"
    for _ in range(2):
        opened.append(both.node())
        assert is_served(opened[-1])
    assert is_closed(opened[1])
    assert all(is_served(client) for client in (opened[0], *opened[2:]))


def test_a_lower_limit_closes_what_was_unused_for_longest(
    both: Broker2, opened: list[Wire], change: Callable[..., None]
) -> None:
    open_clients(both, opened, 4)
    change({MAX: "2"})
    assert all(is_closed(client) for client in opened[:2])
    assert is_served(opened[3])


def test_the_listener_of_nodes_has_the_limit_of_all_for_itself(
    both: Broker2, opened: list[Wire]
) -> None:
    open_clients(both, opened, 5)
    nodes = [both.node() for _ in range(6)]
    opened += nodes
    assert all(is_served(node) for node in nodes)
    opened.append(both.node())
    assert not is_served(opened[-1], WAITS_S)


def test_one_too_many_from_an_address_is_closed_at_once(
    both: Broker2, opened: list[Wire], change: Callable[..., None]
) -> None:
    time.sleep(0.5)  # connections of other tests may still be closing
    change({"max.connections.per.ip.overrides": "127.0.0.1:3"})
    open_clients(both, opened, 3)
    opened.append(both.client())
    assert is_closed(opened[-1])
    for wire in opened:
        wire.close()
    time.sleep(0.3)  # the next change needs a connection
