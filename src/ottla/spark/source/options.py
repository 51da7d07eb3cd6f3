"""The options of the source, with the names and checks of Spark's Kafka source.

Names are case-insensitive. An option that Spark reads but does not use is accepted. A name that is
nearly a known one is refused, because it would be ignored silently.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from ottla.client.settings.consumer import ConsumerOptions
from ottla.durations import parse_ms
from ottla.spark.client_options import BOOTSTRAP, PREFIX, SECURITY, consumer_options
from ottla.spark.source.limits import Limit, Strategy, check_batch, read_limit
from ottla.spark.source.offsets import EARLIEST, LATEST
from ottla.spark.source.topics import TopicChoice, read_choice

log = logging.getLogger("ottla.spark")

KNOWN = [
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "partition.metadata.cache.ttl.ms",
]

_NEARLY = 0.9
_MAX_TRIGGER_DELAY = "15m"
_SPARK_UNITS = ("us", "ms", "s", "m", "min", "h", "d")
_POLL_TIMEOUT_MS = 120_000


@dataclass(frozen=True)
class SourceOptions:
    topics: TopicChoice
    starting: Limit
    ending: Limit
    client: ConsumerOptions = field(repr=False)
    no_match: Strategy = "error"
    """What to do if a starting time is after the last record."""
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records: int | None = None
    """The most records that one task reads."""
    headers: bool = False
    fail_on_data_loss: bool = True
    offset_attempts: int = 3
    offset_pause_ms: int = 1_000
    poll_timeout_ms: int = _POLL_TIMEOUT_MS
    metadata_ttl_ms: int = -1
    """How long the known partitions are taken to be complete; -1: not at all."""

    @property
    def is_read_committed(self) -> bool:
        return self.client.get("isolation_level") == "read_committed"


def includes_headers(options: Mapping[str, str]) -> bool:
    return _truth(options, "includeHeaders", default=False)


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options that are wrong for both batch and stream."""
    _options(_lower(options), LATEST)


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    given = _lower(options)
    if "endingoffsets" in given:
        raise ValueError("ending offset not valid in streaming queries")
    if "endingtimestamp" in given or "endingoffsetsbytimestamp" in given:
        raise ValueError("ending timestamp not valid in streaming queries")
    return _options(given, LATEST)


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    given = _lower(options)
    found = _options(given, EARLIEST)
    check_batch(found.starting, found.ending)
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name.lower() in given:
            log.warning("%s option ignored in batch queries", name)
    return found


def _options(given: Mapping[str, str], starting: int) -> SourceOptions:
    _refuse(given)
    found = SourceOptions(
        topics=read_choice(given),
        starting=read_limit(given, "starting", starting),
        ending=read_limit(given, "ending", LATEST),
        client=consumer_options(given),
        no_match=_strategy(given),
        max_offsets=_positive(given, "maxOffsetsPerTrigger"),
        min_offsets=_positive(given, "minOffsetsPerTrigger"),
        max_delay_ms=_duration_ms(
            "maxTriggerDelay", given.get("maxtriggerdelay", _MAX_TRIGGER_DELAY)
        ),
        min_partitions=_positive(given, "minPartitions"),
        max_records=_positive(given, "maxRecordsPerPartition"),
        headers=includes_headers(given),
        fail_on_data_loss=_truth(given, "failOnDataLoss", default=True),
        offset_attempts=_positive(given, "fetchOffset.numRetries") or 3,
        offset_pause_ms=_whole(given, "fetchOffset.retryIntervalMs", 1_000),
        poll_timeout_ms=_positive(given, "kafkaConsumer.pollTimeoutMs") or _POLL_TIMEOUT_MS,
        metadata_ttl_ms=_ttl(given),
    )
    low, high = found.min_offsets, found.max_offsets
    if low is not None and high is not None and low > high:
        raise ValueError(
            f"The value of minOffsetPerTrigger({low}) is higher than the "
            f"maxOffsetsPerTrigger({high})."
        )
    return found


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _refuse(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in KNOWN}
    for name in given:
        if name in known or name.startswith("kafka."):
            continue
        if name.startswith(SECURITY):
            raise ValueError(f"there is no option {name!r}; did you mean '{PREFIX}{name}'?")
        if close := difflib.get_close_matches(name, known, n=1, cutoff=_NEARLY):
            raise ValueError(f"there is no option {name!r}; did you mean {known[close[0]]!r}?")
    for name, reason in _REFUSED.items():
        if f"kafka.{name}" in given:
            raise ValueError(f"Kafka option '{name}' is not supported{reason}")
    if BOOTSTRAP not in given:
        raise ValueError(f"Option '{BOOTSTRAP}' must be specified for configuring Kafka consumer")


_BYTES = (
    " as {0} are deserialized as byte arrays with ByteArrayDeserializer. "
    "Use DataFrame operations to explicitly deserialize the {0}."
)
_REFUSED = {
    "auto.offset.reset": (
        ". Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify "
        "where to start. Structured Streaming manages which offsets are consumed internally, so "
        "that no data is missed when topics or partitions are added; 'startingOffsets' counts "
        "when a query is new, and resuming goes on where the query left off."
    ),
    "key.deserializer": _BYTES.format("keys"),
    "value.deserializer": _BYTES.format("values"),
    "enable.auto.commit": "",
    "interceptor.classes": "",
}


def _strategy(given: Mapping[str, str]) -> Strategy:
    name = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if name not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy is {name!r}; it is error or latest")
    return cast("Strategy", name)


def _ttl(given: Mapping[str, str]) -> int:
    ttl_ms = _whole(given, "partition.metadata.cache.ttl.ms", -1)
    if ttl_ms != -1 and ttl_ms <= 0:
        raise ValueError(
            "Option 'partition.metadata.cache.ttl.ms' must be a positive number of milliseconds, "
            "or -1 to disable caching"
        )
    return ttl_ms


def _positive(given: Mapping[str, str], name: str) -> int | None:
    if name.lower() not in given:
        return None
    number = _whole(given, name, 0)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {number}")
    return number


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {text!r}") from None


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, got {text!r}")
    return text == "true"


def _duration_ms(name: str, text: str) -> int:
    """Read a duration as Spark writes it: 15m, 10s, 500ms; a bare number is milliseconds."""
    if text.strip().isdecimal():
        return int(text)
    found = parse_ms(text, _SPARK_UNITS, parts_max=1)
    if found is None:
        units = ", ".join(_SPARK_UNITS)
        raise ValueError(f"{name} must be a number and a unit ({units}) such as 15m, got {text!r}")
    return found
