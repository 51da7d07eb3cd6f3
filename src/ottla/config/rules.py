"""Rules between broker keys: each yields the problems of the values taken together."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ottla.config.cluster import broken_cluster_rules
from ottla.config.errors import Problem

Values = Mapping[str, Any]

ALL_LOG_DIRS: Final = "*"
"""The value of `cordoned.log.dirs` that means all of them."""
_CLEANER_BYTES_MIN: Final = 1024 * 1024


def _identity(values: Values) -> Iterator[Problem]:
    if values["broker.id"] >= 0 and values["broker.id"] != values["node.id"]:
        yield Problem("broker.id", str(values["broker.id"]), "must be the same as node.id")


def _log_times(values: Values) -> Iterator[Problem]:
    retention_ms = values["log.retention.ms"]
    if retention_ms == 0:
        yield Problem("log.retention.ms", "0", "must be -1 (for ever) or at least 1")
    if values["log.roll.ms"] < 1:
        yield Problem("log.roll.ms", str(values["log.roll.ms"]), "must be at least 1")
    if values["log.roll.jitter.ms"] < 0:
        yield Problem("log.roll.jitter.ms", str(values["log.roll.jitter.ms"]), "must be at least 0")
    lag_min = values["log.cleaner.min.compaction.lag.ms"]
    lag_max = values["log.cleaner.max.compaction.lag.ms"]
    if lag_min > lag_max:
        expected = f"must not be larger than log.cleaner.max.compaction.lag.ms ({lag_max})"
        yield Problem("log.cleaner.min.compaction.lag.ms", str(lag_min), expected)


def _cleaner_memory(values: Values) -> Iterator[Problem]:
    threads = values["log.cleaner.threads"]
    size = values["log.cleaner.dedupe.buffer.size"]
    if threads and size // threads <= _CLEANER_BYTES_MIN:
        expected = f"must be more than 1 MB for each of the {threads} cleaner threads"
        yield Problem("log.cleaner.dedupe.buffer.size", str(size), expected)


def _cordoned(values: Values) -> Iterator[Problem]:
    folders = {path.rstrip("/") for path in values["log.dirs"] or values["log.dir"]}
    cordoned = values["cordoned.log.dirs"] or ()
    if ALL_LOG_DIRS in cordoned:
        if len(cordoned) > 1:
            expected = f"must not contain other values when it is set to {ALL_LOG_DIRS}"
            yield Problem("cordoned.log.dirs", ",".join(cordoned), expected)
        return
    missing = [path for path in cordoned if path.rstrip("/") not in folders]
    if missing:
        expected = "all entries must be present in log.dirs or log.dir"
        yield Problem("cordoned.log.dirs", ",".join(missing), expected)


def _replica_waits(values: Values) -> Iterator[Problem]:
    wait_ms = values["replica.fetch.wait.max.ms"]
    for other in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait_ms > values[other]:
            expected = f"must not be larger than {other} ({values[other]})"
            yield Problem("replica.fetch.wait.max.ms", str(wait_ms), expected)


def _connections(values: Values) -> Iterator[Problem]:
    queued, largest = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    if 0 < queued < largest:
        expected = f"must be at least socket.request.max.bytes ({largest})"
        yield Problem("queued.max.request.bytes", str(queued), expected)
    try:
        overrides = parse_ip_overrides(values["max.connections.per.ip.overrides"])
    except ValueError as wrong:
        yield Problem("max.connections.per.ip.overrides", str(wrong), "expected address:count")
        return
    if values["max.connections.per.ip"] == 0 and not overrides:
        expected = "0 is only allowed together with max.connections.per.ip.overrides"
        yield Problem("max.connections.per.ip", "0", expected)
    idle_ms = values["connections.max.idle.ms"]
    delay_ms = values["connection.failed.authentication.delay.ms"]
    if 0 <= idle_ms <= delay_ms:
        expected = f"must be larger than connection.failed.authentication.delay.ms ({delay_ms})"
        yield Problem("connections.max.idle.ms", str(idle_ms), expected)


def parse_ip_overrides(text: str) -> dict[str, int]:
    """Parse `address:count` entries; raises ValueError with the invalid entry."""
    limits: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        address, colon, count = item.rpartition(":")
        if not (colon and address and count.isascii() and count.isdigit()):
            raise ValueError(item)
        limits[address.strip("[] ")] = int(count)
    return limits


_RULES: Final[tuple[Callable[[Values], Iterator[Problem]], ...]] = (
    _identity,
    broken_cluster_rules,
    _log_times,
    _cleaner_memory,
    _cordoned,
    _replica_waits,
    _connections,
)


def broken_rules(values: Values) -> list[Problem]:
    return [problem for rule in _RULES for problem in rule(values)]
