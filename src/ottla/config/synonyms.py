"""The broker keys that give a topic key its default, strongest first, and their units.

The first that is set wins: `log.retention.ms`, then `.minutes`, then `.hours`. The last one always
has a value, if only its own default.
"""

from typing import Final, NamedTuple

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


class Synonym(NamedTuple):
    """A broker key, and the factor that converts its value."""

    name: str
    factor: int = 1


def _one(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


# Broker keys that are synonyms, under the name of the strongest.
BROKER_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "log.retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "log.roll.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    "log.roll.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    "log.flush.interval.ms": (
        Synonym("log.flush.interval.ms"),
        Synonym("log.flush.scheduler.interval.ms"),
    ),
}

TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": _one("log.cleanup.policy"),
    "compression.gzip.level": _one("compression.gzip.level"),
    "compression.lz4.level": _one("compression.lz4.level"),
    "compression.type": _one("compression.type"),
    "compression.zstd.level": _one("compression.zstd.level"),
    "delete.retention.ms": _one("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _one("log.segment.delete.delay.ms"),
    "flush.messages": _one("log.flush.interval.messages"),
    "flush.ms": BROKER_SYNONYMS["log.flush.interval.ms"],
    "index.interval.bytes": _one("log.index.interval.bytes"),
    "local.retention.bytes": _one("log.local.retention.bytes"),
    "local.retention.ms": _one("log.local.retention.ms"),
    "max.compaction.lag.ms": _one("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _one("message.max.bytes"),
    "message.timestamp.after.max.ms": _one("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _one("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _one("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _one("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _one("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _one("min.insync.replicas"),
    "preallocate": _one("log.preallocate"),
    "retention.bytes": _one("log.retention.bytes"),
    "retention.ms": BROKER_SYNONYMS["log.retention.ms"],
    "segment.bytes": _one("log.segment.bytes"),
    "segment.index.bytes": _one("log.index.size.max.bytes"),
    "segment.jitter.ms": BROKER_SYNONYMS["log.roll.jitter.ms"],
    "segment.ms": BROKER_SYNONYMS["log.roll.ms"],
    "unclean.leader.election.enable": _one("unclean.leader.election.enable"),
}
