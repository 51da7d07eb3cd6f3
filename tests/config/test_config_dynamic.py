"""Changes at run time: brokers, groups, client metrics."""

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import validate_client_metrics
from ottla.config.dynamic import validate_broker_overrides
from ottla.config.errors import ConfigError
from ottla.config.group import group_values, validate_group_overrides
from ottla.config.reconfigure import check_reconfiguration

PLAIN = BrokerConfig.parse({})
KEYSTORE = "listener.name.foo.ssl.keystore.location"


@pytest.mark.parametrize(
    ("name", "text", "cluster_default", "part"),
    [
        ("log.dirs", "/x", False, "Cannot update these configs dynamically"),
        ("super.users", "User:x", False, "Cannot update these configs dynamically"),
        ("super.users", "User:x", True, "Cannot update these configs dynamically"),
        ("allow.everyone.if.no.acl.found", "true", True, "Cannot update these configs dynamically"),
        ("principal.builder.class", "com.x.Y", False, "the only class here is"),
        ("listener.name.a.principal.builder.class", "com.x.Y", False, "the only class here is"),
        ("log.retention.hours", "1", True, "Cannot update these configs dynamically"),
        ("listeners", "PLAINTEXT://:1", True, "broker id must be specified"),
        ("cordoned.log.dirs", "/x", True, "broker id must be specified"),
        ("ssl.keystore.location", "/x", False, "only per-listener"),
        (KEYSTORE, "/x", True, "broker id must be specified"),
        ("log.segment.bytes", "5", False, "at least 1048576"),
        ("log.retention.ms", "x", True, "expected a whole number"),
    ],
)
def test_what_cannot_change_at_run_time_is_refused(
    name: str, text: str, cluster_default: bool, part: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_broker_overrides({name: text}, cluster_default=cluster_default)
    assert part in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "cluster_default"),
    [
        ("log.retention.ms", "5", True),
        ("log.cleaner.threads", "2", False),
        ("cordoned.log.dirs", "/x", False),
        ("listeners", "PLAINTEXT://:1", False),
        (KEYSTORE, "/x", False),
        ("listener.name.foo.max.connections", "5", True),
        ("leader.replication.throttled.rate", "1", False),
        ("a.plugins.own.key", "x", True),
    ],
)
def test_what_kafka_lets_change_at_run_time_passes(
    name: str, text: str, cluster_default: bool
) -> None:
    validate_broker_overrides({name: text}, cluster_default=cluster_default)


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"num.io.threads": "17"}, "not be greater than double the current value 8"),
        ({"num.io.threads": "3"}, "at least half the current value 8"),
        ({"log.cleaner.threads": "3"}, "more than double the current value 1"),
        ({"log.cleaner.threads": "0"}, "should be at least 1"),
        ({"max.connections": "0"}, "Invalid max.connections 0"),
        ({"cordoned.log.dirs": "/elsewhere"}, "must be present in log.dirs"),
        ({"cordoned.log.dirs": "*,/data"}, "must not contain other values"),
        ({"log.cleaner.dedupe.buffer.size": "1"}, "more than 1 MB"),
        ({"listeners": "OTHER://:1"}, "must have a protocol"),
        (
            {"listeners": "A://:1", "listener.security.protocol.map": "A:PLAINTEXT"},
            "must be a subset of listeners",
        ),
    ],
)
def test_a_running_broker_refuses_what_it_cannot_do(overrides: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_reconfiguration(PLAIN, PLAIN.with_dynamic({}, overrides), ["PLAINTEXT"])
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        {"num.io.threads": "16"},
        {"num.io.threads": "4"},
        {"a.plugins.own.key": "x"},
        {
            "listeners": "PLAINTEXT://:1,A://:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT",
        },
    ],
)
def test_a_running_broker_takes_what_it_can_do(overrides: dict[str, str]) -> None:
    check_reconfiguration(PLAIN, PLAIN.with_dynamic({}, overrides), ["PLAINTEXT"])


def test_stored_listeners_hold_from_the_next_start() -> None:
    stored = {
        "listeners": "PLAINTEXT://:1,A://:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT",
    }
    then = PLAIN.with_dynamic({}, stored)
    assert [listener.name for listener in then.listeners] == ["PLAINTEXT", "A"]
    back = then.with_dynamic({}, {})
    assert back.listeners == PLAIN.listeners


def test_a_group_starts_from_the_brokers_settings() -> None:
    broker = BrokerConfig.parse({"group.consumer.session.timeout.ms": "50000"})
    values = group_values(broker, {"share.delivery.count.limit": "3"})
    assert values["consumer.session.timeout.ms"] == 50_000
    assert values["share.delivery.count.limit"] == 3
    assert values["share.auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        ({"consumer.session.timeout.ms": "x"}, "expected a whole number"),
        ({"consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"share.record.lock.duration.ms": "60001"}, "group.share.max.record.lock.duration.ms"),
        ({"share.auto.offset.reset": "middle"}, "latest, earliest"),
        ({"share.isolation.level": "none"}, "read_committed"),
    ],
)
def test_what_a_group_may_not_set_is_refused(overrides: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_group_overrides(overrides, PLAIN)
    assert part in str(caught.value)


def test_a_session_must_outlast_a_heartbeat() -> None:
    broker = BrokerConfig.parse({"group.consumer.max.heartbeat.interval.ms": "60000"})
    with pytest.raises(ConfigError, match=r"greater than consumer\.heartbeat\.interval\.ms"):
        validate_group_overrides({"consumer.heartbeat.interval.ms": "50000"}, broker)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"metrics": "", "interval.ms": "100"},
        {"metrics": "*", "match": "client_id=a.*,client_software_name=b"},
    ],
)
def test_subscriptions_that_kafka_accepts_are_accepted(overrides: dict[str, str]) -> None:
    validate_client_metrics(overrides)


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"interval.ms": "99"}, "100 to 3600000"),
        ({"interval.ms": "x"}, "whole number"),
        ({"foo": "x"}, "Unknown client metrics configuration: foo"),
        ({"match": "colour=blue"}, "client_software_version"),
        ({"match": "client_id"}, "parameter=pattern"),
        ({"match": "client_id=["}, "parameter=pattern"),
    ],
)
def test_what_is_no_subscription_is_refused(overrides: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_client_metrics(overrides)
    assert part in str(caught.value)


JAAS = "listener.name.clients.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SIGNING_IN = BrokerConfig.parse(
    {
        "log.dirs": "data",
        "listeners": "CLIENTS://localhost:9092",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS: f'{MODULE} user_ann="hers";',
    }
)


def test_how_clients_of_an_open_listener_sign_in_cannot_change() -> None:
    for key, value in (
        (JAAS, f'{MODULE} user_ann="hers" user_bob="his";'),
        ("listener.name.clients.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512"),
    ):
        then = SIGNING_IN.with_dynamic({}, {key: value})
        with pytest.raises(
            ConfigError, match="dynamically for existing listener CLIENTS"
        ) as raised:
            check_reconfiguration(SIGNING_IN, then, ["CLIENTS"])
        assert "hers" not in str(raised.value)


def test_limits_of_an_open_listener_and_keys_of_others_can_change() -> None:
    for key, value in (
        ("listener.name.clients.max.connections", "7"),
        ("listener.name.to_come.sasl.enabled.mechanisms", "PLAIN"),
        (JAAS, SIGNING_IN.explicit[JAAS]),
    ):
        check_reconfiguration(SIGNING_IN, SIGNING_IN.with_dynamic({}, {key: value}), ["CLIENTS"])
