"""Listeners to open and to tell clients."""

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.listeners import Listener, parse_listeners, parse_protocol_map


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", [Listener("PLAINTEXT", "", 9092)]),
        ("plaintext://localhost:0", [Listener("PLAINTEXT", "localhost", 0)]),
        ("PLAINTEXT://[::1]:9092", [Listener("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [Listener("PLAINTEXT", "fe80::1%eth0", 9092)]),
        (
            "A://10.0.0.1:1, B-2://my_host.example:2",
            [Listener("A", "10.0.0.1", 1), Listener("B-2", "my_host.example", 2)],
        ),
    ],
)
def test_names_addresses_and_ports_are_read(text: str, expected: list[Listener]) -> None:
    assert list(parse_listeners("listeners", text)) == expected


@pytest.mark.parametrize(
    "text", ["localhost:9092", "A://host", "A://host:x", "A://host:65536", "A://::1:9092", "://:1"]
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners: expected NAME://host:port"):
        parse_listeners("listeners", text)


def test_a_listener_is_shown_as_it_is_written() -> None:
    assert str(Listener("A", "::1", 5)) == "A://[::1]:5"
    assert str(Listener("A", "", 5)) == "A://:5"


@pytest.mark.parametrize(
    ("listeners", "part"),
    [
        ("PLAINTEXT://:1,PLAINTEXT://:2", "a name of its own"),
        ("PLAINTEXT://:1,PLAINTEXT://:1", "a name of its own"),
        ("PLAINTEXT://:1,CLIENTS://:1", "a port of its own"),
        ("PLAINTEXT://10.0.0.1:1,CLIENTS://10.0.0.2:1", "a port of its own"),
        ("UNMAPPED://:1", "must have a protocol"),
        ("SASL_SSL://:1", "an SSL listener needs a private key and a certificate chain"),
        (
            "SASL_SSL://:1",
            "GSSAPI, the default, needs it",
        ),
        ("SSL://:1", "an SSL listener needs a private key and a certificate chain"),
    ],
)
def test_listeners_that_cannot_be_served_are_refused(listeners: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse(
            {
                "listeners": listeners,
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"
                ),
            }
        )
    assert part in str(caught.value)


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,SIX://[::1]:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
        }
    )
    assert [listener.host for listener in config.listeners] == ["127.0.0.1", "::1"]


def test_free_ports_are_no_duplicates() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://:0,B://:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
        }
    )
    assert [listener.port for listener in config.listeners] == [0, 0]


def test_clients_are_told_the_listeners_unless_something_else_is_set() -> None:
    config = BrokerConfig.parse({"listeners": "PLAINTEXT://10.0.0.1:9092"})
    assert config.advertised_listeners == (Listener("PLAINTEXT", "10.0.0.1", 9092),)
    told = BrokerConfig.parse({"advertised.listeners": "PLAINTEXT://kafka.example:19092"})
    assert told.advertised_listeners == (Listener("PLAINTEXT", "kafka.example", 19092),)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_interfaces_are_served_and_told_as_the_machines_own_name(host: str) -> None:
    config = BrokerConfig.parse({"listeners": f"PLAINTEXT://{host}:9092"})
    assert config.listeners[0].host == host.strip("[]")
    assert config.advertised_listeners[0].host == ""


@pytest.mark.parametrize(
    ("advertised", "part"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "no client can connect"),
        ("OTHER://host:9092", "must be one of those in listeners"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "a name of its own"),
        ("PLAINTEXT", "NAME://host:port"),
    ],
)
def test_addresses_of_no_use_to_clients_are_refused(advertised: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse({"advertised.listeners": advertised})
    assert part in str(caught.value)


def test_a_controller_listener_needs_no_protocol_and_is_not_told_to_clients() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [listener.name for listener in config.advertised_listeners] == ["PLAINTEXT"]


def test_a_node_with_nothing_but_controller_listeners_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one listener"):
        BrokerConfig.parse({"controller.listener.names": "PLAINTEXT"})


def test_the_listener_between_brokers_must_exist() -> None:
    with pytest.raises(ConfigError, match="expected one of PLAINTEXT"):
        BrokerConfig.parse({"inter.broker.listener.name": "INTERNAL"})
    for protocol in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        with pytest.raises(ConfigError, match="no listener has this name"):
            BrokerConfig.parse({"security.inter.broker.protocol": protocol})
    with pytest.raises(ConfigError, match="cannot be set with"):
        BrokerConfig.parse(
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            }
        )


def test_brokers_talk_by_the_listener_that_is_named_or_else_by_one_they_have() -> None:
    listeners = "PUBLIC://:9092,PLAINTEXT://:9093,LAN://:9094"
    protocols = "PUBLIC:PLAINTEXT,PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT"
    given = {"listeners": listeners, "listener.security.protocol.map": protocols}
    assert BrokerConfig.parse(given).inter_broker_listener_name == "PLAINTEXT"
    named = given | {"inter.broker.listener.name": "lan"}
    assert BrokerConfig.parse(named).inter_broker_listener_name == "LAN"
    public = {"listeners": "PUBLIC://:9092", "listener.security.protocol.map": "PUBLIC:PLAINTEXT"}
    assert BrokerConfig.parse(public).inter_broker_listener_name == "PUBLIC"


def test_a_protocol_nobody_knows_is_refused() -> None:
    assert parse_protocol_map("a:ssl, B:PLAINTEXT") == {"A": "SSL", "B": "PLAINTEXT"}
    with pytest.raises(ConfigError, match="one of PLAINTEXT, SSL"):
        BrokerConfig.parse({"listener.security.protocol.map": "PLAINTEXT:TLS"})


def test_listeners_that_anybody_can_use_are_known() -> None:
    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9090",
            "listeners": "A://localhost:1,B://0.0.0.0:2,C://broker-1:3,D://127.0.0.2:4,"
            "CONTROLLER://:9090",
            "inter.broker.listener.name": "A",
            "advertised.listeners": "A://localhost:1,B://b:2,C://broker-1:3,D://127.0.0.2:4",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("A", "B", "C", "D", "CONTROLLER")
            ),
        }
    )
    assert [one.name for one in config.exposed_listeners] == ["B", "C", "CONTROLLER"]
