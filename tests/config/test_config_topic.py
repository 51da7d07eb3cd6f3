"""A topic's settings over the broker's."""

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions.topic import KEYS
from ottla.config.errors import ConfigError
from ottla.config.topic import TopicConfig, validate_topic_overrides

PLAIN = BrokerConfig.parse({})


def test_defaults_are_kafkas_whether_built_or_written_out() -> None:
    built = TopicConfig.build(PLAIN, {})
    assert built == TopicConfig()
    for name, key in KEYS.items():
        if not key.internal:
            value = getattr(built, name.replace(".", "_"))
            assert (tuple(value) if isinstance(value, frozenset) else value) == key.default, name


def test_the_brokers_keys_are_the_topics_defaults() -> None:
    broker = BrokerConfig.parse(
        {
            "log.segment.bytes": "2097152",
            "log.roll.hours": "1",
            "log.retention.minutes": "1",
            "log.flush.interval.messages": "1",
            "log.cleaner.delete.retention.ms": "3",
            "log.index.size.max.bytes": "4096",
            "message.max.bytes": "99",
            "compression.type": "zstd",
            "log.message.timestamp.type": "LogAppendTime",
        }
    )
    topic = TopicConfig.build(broker, {})
    assert topic.segment_bytes == 2_097_152
    assert topic.segment_ms == 3_600_000
    assert topic.retention_ms == 60_000
    assert topic.flush_messages == 1
    assert topic.delete_retention_ms == 3
    assert topic.segment_index_bytes == 4096
    assert topic.max_message_bytes == 99
    assert (topic.compression_type, topic.compression_level) == ("zstd", 3)
    assert topic.message_timestamp_type == "LogAppendTime"


def test_a_topics_own_settings_win() -> None:
    topic = TopicConfig.build(
        PLAIN, {"retention.ms": "-1", "cleanup.policy": "compact, delete", "preallocate": "true"}
    )
    assert topic.retention_ms == -1
    assert topic.cleanup_policy == {"compact", "delete"}
    assert topic.compact
    assert topic.delete
    assert topic.preallocate


def test_no_cleanup_policy_at_all_keeps_everything() -> None:
    topic = TopicConfig.build(PLAIN, {"cleanup.policy": ""})
    assert not topic.compact
    assert not topic.delete


def test_segments_below_the_usual_limit_can_be_had_for_tests() -> None:
    assert TopicConfig.build(PLAIN, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_settings_can_be_compared_and_hashed() -> None:
    assert len({TopicConfig(), TopicConfig.build(PLAIN, {}), TopicConfig(segment_ms=1)}) == 2


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", -1), ("lz4", 9), ("zstd", 3), ("snappy", None), ("producer", None)],
)
def test_the_level_belongs_to_the_codec(codec: str, level: int | None) -> None:
    assert TopicConfig(compression_type=codec).compression_level == level


def test_a_bound_on_compaction_lag_closes_segments_in_time() -> None:
    policy = frozenset({"compact"})
    assert TopicConfig(cleanup_policy=policy, max_compaction_lag_ms=5).segment_age_max_ms == 5
    assert TopicConfig(max_compaction_lag_ms=5).segment_age_max_ms == 604_800_000


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"segment.bytes": "5"}, "segment.bytes: Value must be at least 1048576"),
        ({"segment.ms": "x"}, "Invalid value x for configuration segment.ms: expected a whole"),
        ({"cleanup.policy": "shred"}, "compact, delete"),
        ({"cleanup.policy": "Compact"}, "compact, delete"),
        ({"compression.type": "GZIP"}, "one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"compression.gzip.level": "0"}, "between 1 and 9 or equal to -1"),
        ({"retention.ms": "-2"}, "at least -1"),
        ({"min.cleanable.dirty.ratio": "2"}, "no more than 1"),
        ({"leader.replication.throttled.replicas": "none"}, "partition:broker"),
        ({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, "max.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "no tiered storage yet"),
    ],
)
def test_what_a_topic_may_not_set_is_refused_with_the_reason(
    overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_overrides(overrides)
    assert message in str(caught.value)


def test_all_problems_of_a_topic_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_overrides({"foo": "1", "retention.ms": "soon"})
    assert len(caught.value.problems) == 2


def test_settings_are_checked_against_the_brokers_beside_them() -> None:
    broker = BrokerConfig.parse({"log.cleaner.max.compaction.lag.ms": "5"})
    validate_topic_overrides({"min.compaction.lag.ms": "6"})
    with pytest.raises(ConfigError, match="must not be larger"):
        validate_topic_overrides({"min.compaction.lag.ms": "6"}, broker)


@pytest.mark.parametrize(
    "overrides",
    [{}, {"cleanup.policy": "delete,delete"}, {"leader.replication.throttled.replicas": "*"}],
)
def test_what_kafka_accepts_is_accepted(overrides: dict[str, str]) -> None:
    validate_topic_overrides(overrides)
