"""A topic's settings: the broker's, with the topic's own on top."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.broker import BrokerConfig
from ottla.config.definitions.topic import KEYS as TOPIC_KEYS
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.synonyms import TOPIC_SYNONYMS
from ottla.config.values import IllTyped

_USE_RETENTION: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of a topic's logs. Fields are the topic keys with `_` for `.`, and Kafka's
    defaults; a test that needs only a small segment writes `TopicConfig(segment_bytes=1024)`."""

    segment_bytes: int = 1024**3
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    local_retention_ms: int = _USE_RETENTION
    local_retention_bytes: int = _USE_RETENTION
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    unclean_leader_election_enable: bool = False
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()

    @classmethod
    def build(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> "TopicConfig":
        """Return the broker's defaults with `overrides` on top; raises `ConfigError` for bad
        overrides."""
        values: dict[str, Any] = {
            topic_key: broker[synonyms[0].name] for topic_key, synonyms in TOPIC_SYNONYMS.items()
        }
        values |= parse_topic_overrides(overrides)
        values["cleanup.policy"] = frozenset(values["cleanup.policy"])
        if (small := values.pop("internal.segment.bytes", None)) is not None:
            values["segment.bytes"] = small
        return cls(**{key.replace(".", "_"): value for key, value in values.items()})

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compression_level(self) -> int | None:
        """The level for `compression_type`; None if the codec has none."""
        match self.compression_type:
            case "gzip":
                return self.compression_gzip_level
            case "lz4":
                return self.compression_lz4_level
            case "zstd":
                return self.compression_zstd_level
        return None

    @property
    def segment_age_max_ms(self) -> int:
        """The age at which the active segment rolls. A compacted topic with a limit on how long
        records may stay uncompacted must close segments in time, because only closed ones are
        compacted."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed values of a topic's own settings; raises `ConfigError` with every
    problem."""
    values: dict[str, Any] = {}
    problems: list[Problem | Unknown] = []
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            problems.append(Unknown(name, text, f"Unknown topic config name: {name}"))
            continue
        try:
            values[name] = key.parse(text)
        except IllTyped as wrong:
            problems.append(Problem(name, text, str(wrong)))
    if problems:
        raise ConfigError(problems)
    return values


def validate_topic_overrides(
    overrides: Mapping[str, str], broker: BrokerConfig | None = None
) -> None:
    """Refuse with `ConfigError` settings that a topic may not have. With `broker`, they are also
    checked against the defaults in force beside them."""
    values = parse_topic_overrides(overrides)

    def effective(name: str) -> Any:
        if name in values:
            return values[name]
        if broker is not None and name in TOPIC_SYNONYMS:
            return broker[TOPIC_SYNONYMS[name][0].name]
        return TOPIC_KEYS[name].default

    lag_min, lag_max = effective("min.compaction.lag.ms"), effective("max.compaction.lag.ms")
    if lag_min > lag_max:
        raise ConfigError.of(
            "min.compaction.lag.ms",
            str(lag_min),
            f"Value must not be larger than max.compaction.lag.ms, which is {lag_max}",
        )
    if effective("remote.storage.enable"):
        raise ConfigError.of(
            "remote.storage.enable", "true", "Value must be false: there is no tiered storage yet"
        )
