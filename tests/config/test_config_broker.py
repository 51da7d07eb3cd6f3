"""From server.properties to a checked BrokerConfig."""

from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.listeners import Listener
from ottla.config.properties import parse_properties

SAMPLE = Path(__file__).with_name("samples") / "kraft-combined.properties"
HOUR_MS = 3_600_000


def refused(**settings: str) -> str:
    """The message for settings given with `_` for `.`."""
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse({name.replace("_", "."): value for name, value in settings.items()})
    return str(caught.value)


def test_nothing_given_is_a_node_alone_on_port_9092() -> None:
    config = BrokerConfig.parse({})
    assert config.node_id == 1
    assert config["process.roles"] == ("broker", "controller")
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config["log.segment.bytes"] == 1024**3
    assert config.unused_warnings() == []


def test_the_file_of_a_kafka_download_is_accepted_as_it_is() -> None:
    config = BrokerConfig.parse(parse_properties(SAMPLE.read_text()))
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert config["num.recovery.threads.per.data.dir"] == 1


def test_what_the_file_asks_for_in_vain_is_said_in_a_few_lines() -> None:
    config = BrokerConfig.parse(parse_properties(SAMPLE.read_text()))
    (unused,) = config.unused_warnings()
    assert "num.io.threads, num.network.threads" in unused
    assert "log.segment.bytes" not in unused


def test_settings_of_plugins_and_single_listeners_pass_with_a_warning() -> None:
    given = {"super.users": "User:a", "listener.name.plaintext.ssl.keystore.location": "/x"}
    (warning,) = BrokerConfig.parse(given).unused_warnings()
    assert "super.users" in warning
    assert "listener.name.plaintext.ssl.keystore.location" in warning


def test_a_compacting_default_policy_is_nothing_to_warn_about() -> None:
    assert BrokerConfig.parse({"log.cleanup.policy": "compact"}).unused_warnings() == []


def test_a_misspelt_key_is_refused_with_the_one_that_was_meant() -> None:
    message = refused(log_segmnt_bytes="1")
    assert message == (
        "Unknown configuration key log.segmnt.bytes: did you mean log.segment.bytes?"
    )


def test_a_key_like_no_other_is_refused() -> None:
    assert "Unknown configuration key qwertz" in refused(qwertz="1")


def test_a_key_that_kafka_dropped_is_refused_with_the_reason() -> None:
    assert "removed in Kafka 4.0" in refused(zookeeper_connect="localhost:2181")


def test_an_ill_typed_value_is_refused_with_key_value_and_type() -> None:
    message = refused(num_partitions="many")
    assert "num.partitions" in message
    assert "many" in message
    assert "int" in message


def test_all_problems_are_told_at_once_with_file_and_line() -> None:
    text = "num.partitions=0\nfoo=1\nlog.preallocate=yes\nprocess.roles=broker\nlisteners=x"
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse(parse_properties(text, "my.properties"))
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "my.properties:1",
        "my.properties:2",
        "my.properties:3",
        "my.properties:4",
        "my.properties:5",
    ]
    assert [problem.key for problem in caught.value.problems][:2] == ["num.partitions", "foo"]


def test_a_bad_password_is_not_shown() -> None:
    message = refused(ssl_keystor_password="s3cret", delegation_token_secret_ky="s3cret")
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finest_unit_given_decides_on_retention(
    given: dict[str, str], retention_ms: int
) -> None:
    assert BrokerConfig.parse(given)["log.retention.ms"] == retention_ms


def test_other_keys_fall_back_on_their_coarser_ones() -> None:
    config = BrokerConfig.parse(
        {
            "log.roll.hours": "1",
            "log.roll.jitter.hours": "2",
            "log.flush.scheduler.interval.ms": "7",
        }
    )
    assert config["log.roll.ms"] == HOUR_MS
    assert config["log.roll.jitter.ms"] == 2 * HOUR_MS
    assert config["log.flush.interval.ms"] == 7


def test_log_dirs_win_over_log_dir_and_the_first_holds_the_metadata() -> None:
    config = BrokerConfig.parse({"log.dir": "/a", "log.dirs": "/b, /c"})
    assert config.log_dirs == ("/b", "/c")
    assert config.metadata_log_dir == "/b"
    assert BrokerConfig.parse({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig.parse({"metadata.log.dir": "/m"}).metadata_log_dir == "/m"


def test_broker_id_is_another_name_of_node_id() -> None:
    assert BrokerConfig.parse({"broker.id": "5"}).node_id == 5
    assert "same as node.id" in refused(broker_id="5", node_id="6")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"log.retention.ms": "0"}, "-1 (for ever) or at least 1"),
        ({"log.roll.ms": "0"}, "at least 1"),
        ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, "8"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "1 MB"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.lag.time.max.ms"),
        ({"queued.max.request.bytes": "5"}, "socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "host"}, "address:count"),
        ({"connections.max.idle.ms": "50"}, "authentication.delay"),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "controller.listener.names"),
        ({"controller.quorum.bootstrap.servers": "a:1"}, "controller.listener.names"),
        (
            {
                "controller.quorum.bootstrap.servers": "a:1",
                "controller.listener.names": "CONTROLLER",
            },
            "needs its listener too: CONTROLLER://host:port",
        ),
        ({"controller.quorum.voters": "2@a:1"}, "must have node.id=1"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "an id of its own"),
        ({"controller.quorum.voters": "a:1"}, "id@host:port"),
        ({"controller.quorum.voters": "1@a:99999"}, "id@host:port"),
        ({"controller.quorum.bootstrap.servers": "a"}, "host:port"),
        ({"process.roles": "controller"}, "controller.listener.names"),
        ({"process.roles": "broker"}, "where the controllers are"),
        (
            {
                "process.roles": "broker",
                "controller.quorum.voters": "1@a:1",
                "controller.listener.names": "CONTROLLER",
            },
            "must not have node.id=1",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(given: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse(given)
    assert part in str(caught.value)


def test_a_quorum_of_this_node_alone_is_accepted() -> None:
    BrokerConfig.parse({"node.id": "7", "controller.quorum.voters": "7@localhost:9093"})


def test_the_roles_and_controllers_of_a_node_in_a_cluster_are_read() -> None:
    common = {
        "controller.quorum.voters": "1@a:9093, 2@b:9093,3@[::1]:9093",
        "controller.listener.names": "CONTROLLER",
    }
    combined = BrokerConfig.parse(
        common | {"node.id": "1", "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
    )
    assert combined.voters == ((1, "a", 9093), (2, "b", 9093), (3, "::1", 9093))
    assert combined.is_broker
    assert combined.is_controller
    assert not combined.is_alone
    controller = BrokerConfig.parse(
        common | {"node.id": "2", "process.roles": "controller", "listeners": "CONTROLLER://:9093"}
    )
    assert not controller.is_broker
    assert controller.listeners == ()
    assert [listener.name for listener in controller.advertised_controller_listeners] == [
        "CONTROLLER"
    ]
    broker = BrokerConfig.parse(common | {"node.id": "4", "process.roles": "broker"})
    assert not broker.is_controller
    assert broker.controller_listeners == ()


def test_a_node_is_alone_if_it_names_no_other_controller() -> None:
    listeners = {
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
    }
    assert BrokerConfig.parse({}).is_alone
    assert BrokerConfig.parse(listeners | {"controller.quorum.voters": "1@a:9093"}).is_alone
    own = listeners | {"controller.quorum.bootstrap.servers": "localhost:9093"}
    assert BrokerConfig.parse(own).is_alone
    same = own | {"listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"}
    assert BrokerConfig.parse(same).is_alone
    other = listeners | {"controller.quorum.bootstrap.servers": "localhost:9193"}
    assert not BrokerConfig.parse(other).is_alone


def test_limits_by_address_are_read_also_for_ipv6() -> None:
    config = BrokerConfig.parse({"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7"})
    assert config.max_connections_by_ip == {"10.0.0.1": 5, "::1": 7}


def test_run_time_settings_go_over_the_file_and_the_brokers_own_over_those_for_all() -> None:
    config = BrokerConfig.parse({"log.retention.hours": "1", "message.max.bytes": "10"})
    changed = config.with_dynamic(
        {"log.retention.ms": "5", "message.max.bytes": "20"}, {"message.max.bytes": "30"}
    )
    assert changed["log.retention.ms"] == 5
    assert changed["message.max.bytes"] == 30
    assert config["message.max.bytes"] == 10
    assert changed.with_dynamic({}, {})["log.retention.ms"] == HOUR_MS


def test_stored_settings_that_make_no_sense_are_left_out_and_told() -> None:
    config = BrokerConfig.parse({})
    changed = config.with_dynamic({"message.max.bytes": "x", "log.dirs": "/elsewhere"}, {})
    assert changed["message.max.bytes"] == config["message.max.bytes"]
    assert changed.log_dirs == config.log_dirs
    assert [problem.key for problem in changed.ignored] == ["message.max.bytes"]
    clash = config.with_dynamic({"log.retention.ms": "0"}, {})
    assert clash["log.retention.ms"] == config["log.retention.ms"]
    assert clash.ignored
