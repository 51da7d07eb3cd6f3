"""Which value is in force and why, as DescribeConfigs tells it."""

from ottla.config.broker import BrokerConfig
from ottla.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ottla.config.values import ConfigType

PLAIN = BrokerConfig.parse({})
DEFAULT = ConfigSource.DEFAULT_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
SHARE_LEVEL = "share.isolation.level"


def by_name(entries: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_a_topic_without_settings_has_defaults_only() -> None:
    entries = by_name(describe_topic({}, PLAIN))
    assert len(entries) == 33
    assert "internal.segment.bytes" not in entries
    assert all(entry.is_default for entry in entries.values())
    assert entries["segment.bytes"].value == "1073741824"
    assert entries["segment.bytes"].type == ConfigType.INT
    assert entries["segment.bytes"].doc
    assert entries["cleanup.policy"].value == "delete"
    assert entries["retention.ms"].value == "604800000"


def test_a_topics_value_comes_with_all_that_was_in_line() -> None:
    broker = BrokerConfig.parse({"log.segment.bytes": "2000000"}).with_dynamic(
        {"log.segment.bytes": "3000000"}, {"log.segment.bytes": "4000000"}
    )
    (entry,) = describe_topic({"segment.bytes": "5000000"}, broker, ["segment.bytes"])
    assert (entry.value, entry.source) == ("5000000", ConfigSource.TOPIC_CONFIG)
    assert not entry.read_only
    assert [tuple(synonym) for synonym in entry.synonyms] == [
        ("segment.bytes", "5000000", 1),
        ("log.segment.bytes", "4000000", 2),
        ("log.segment.bytes", "3000000", 3),
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]


def test_a_value_from_a_coarser_key_is_shown_converted() -> None:
    (entry,) = describe_topic({}, BrokerConfig.parse({"log.roll.hours": "1"}), ["segment.ms"])
    assert entry.value == "3600000"


def test_a_broker_shows_all_but_internal_keys_unless_they_were_set() -> None:
    entries = by_name(describe_broker(PLAIN))
    assert "log.initial.task.delay.ms" not in entries
    assert "log.initial.task.delay.ms" in by_name(
        describe_broker(BrokerConfig.parse({"log.initial.task.delay.ms": "1"}))
    )
    assert entries["node.id"].value == "1"
    assert entries["log.retention.ms"].value is None
    assert entries["log.retention.hours"].value == "168"


def test_a_brokers_value_says_where_it_came_from_and_if_it_can_change() -> None:
    entries = by_name(describe_broker(BrokerConfig.parse({"log.dirs": "/a, /b"})))
    assert entries["log.dirs"][:4] == ("log.dirs", "/a,/b", STATIC, True)
    assert entries["log.segment.bytes"][:4] == ("log.segment.bytes", "1073741824", DEFAULT, False)
    assert entries["num.io.threads"].read_only is False


def test_passwords_and_what_may_be_one_are_never_shown() -> None:
    given = {"ssl.key.password": "s3cret", "super.users": "s3cret"}
    broker = BrokerConfig.parse(given).with_dynamic(
        {}, {"listener.name.a.ssl.key.password": "s3cret", "plugin.key": "s3cret"}
    )
    entries = describe_broker(broker)
    assert "s3cret" not in repr(entries)
    named = by_name(entries)
    assert all(named[name].sensitive for name in [*given, "plugin.key"])
    assert named["super.users"].type == 0


def test_settings_for_all_brokers_are_listed_alone() -> None:
    broker = PLAIN.with_dynamic({"log.retention.ms": "5"}, {"message.max.bytes": "6"})
    (entry,) = describe_cluster_default(broker)
    assert (entry.name, entry.value) == ("log.retention.ms", "5")
    assert entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert describe_cluster_default(broker, ["message.max.bytes"]) == []


def test_a_group_shows_its_own_settings_over_the_brokers() -> None:
    broker = BrokerConfig.parse({"group.share.session.timeout.ms": "50000"})
    entries = by_name(describe_group({"consumer.session.timeout.ms": "46000"}, broker))
    assert entries["consumer.session.timeout.ms"].source is ConfigSource.GROUP_CONFIG
    assert entries["share.session.timeout.ms"][:3] == ("share.session.timeout.ms", "50000", STATIC)
    assert entries["share.isolation.level"].is_default


def test_a_subscription_shows_what_it_sets() -> None:
    entries = by_name(describe_client_metrics({"interval.ms": "100"}))
    assert entries["interval.ms"].source is ConfigSource.CLIENT_METRICS_CONFIG
    assert entries["match"].is_default


def test_a_subscription_shows_its_values_among_the_synonyms() -> None:
    (entry,) = describe_client_metrics({"interval.ms": "100"}, ["interval.ms"])
    assert [tuple(one) for one in entry.synonyms] == [("interval.ms", "100", 7)]


def test_settings_of_share_groups_name_their_defaults() -> None:
    (entry,) = describe_group({"share.isolation.level": "read_committed"}, PLAIN, [SHARE_LEVEL])
    assert [tuple(one) for one in entry.synonyms] == [
        (SHARE_LEVEL, "read_committed", 8),
        (SHARE_LEVEL, "read_uncommitted", 5),
    ]


def test_the_older_name_of_the_node_id_shows_it_too() -> None:
    assert by_name(describe_broker(PLAIN))["broker.id"].value == "1"
    for name in ("node.id", "broker.id"):
        entries = by_name(describe_broker(BrokerConfig.parse({name: "7"})))
        for shown in (entries["node.id"], entries["broker.id"]):
            assert (shown.value, shown.source) == ("7", STATIC)


def test_throttles_are_listed_where_they_are_set() -> None:
    rate = "leader.replication.throttled.rate"
    assert rate not in by_name(describe_broker(PLAIN))
    entry = by_name(describe_broker(PLAIN.with_dynamic({}, {rate: "5"})))[rate]
    assert [tuple(one) for one in entry.synonyms] == [(rate, "5", 2)]
    assert entry.doc is None
