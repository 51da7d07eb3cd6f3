"""Structured logs: an event in words, and fields beside it.

log = get_logger("ottla.network")
log.warning("closing a connection", peer=peer, reason=reason)

There is one logger per concern, on top of the standard library's `logging`, so that lines of other
libraries have the same format and levels can change while the broker runs. A call below the level
costs one comparison: only a handler formats the fields. A sentence that needs its values inside
takes them as the standard library does: `log.info("joining %s", group)`.

All that a node runs logs in this way. What runs in an application's process (the clients, Spark,
streams, pipelines) uses `logging.getLogger`: the application configures its logs, and its handlers
show no fields. `LOGGERS` names all loggers of both kinds; a test compares it with the source.
"""

import logging
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
FORMS: Final = ("human", "json")

# For `--log-level ottla.storage=debug` (which includes `ottla.storage.log`), and for the docs.
LOGGERS: Final = {
    "ottla.node": "start, stop, and what made the node stop",
    "ottla.network": "connections: refused, broken, closed",
    "ottla.server": "requests whose handlers failed",
    "ottla.storage.log": "segments, indexes and appends of logs",
    "ottla.storage.dirs": "log folders: failed, moved between, removed",
    "ottla.storage.housekeeping": "what runs at intervals on all logs",
    "ottla.storage.recovery": "what was mended after a crash",
    "ottla.cleaner": "compaction",
    "ottla.replication": "leaders, followers and their fetchers",
    "ottla.coordinator": "groups, transactions and the shards that host them",
    "ottla.metadata": "the metadata log and its image",
    "ottla.metrics": "the pages for Prometheus",
    "ottla.quorum": "elections, and the log of the quorum on disk",
    "ottla.controller": "decisions on topics, partitions and configurations",
    "ottla.quotas": "who was throttled, for how long and by which quota",
    "kafka.authorizer.logger": "the audit log, always JSON: who was refused what, and at debug "
    "also who was allowed what",
    "ottla.runtime": "background tasks that failed",
    "ottla.client": "connections, metadata and deliveries of clients",
    "ottla.client.consumer": "positions and fetches of consumers",
    "ottla.client.group": "consumers in groups: joining, assignments, commits",
    "ottla.client.parallel": "`consumer.process`",
    "ottla.spark": "the data source, its sink, and sessions",
    "ottla.streams": "queries of stream applications",
    "ottla.pipelines": "managed applications",
}

TEXT_MAX: Final = 300
"""The most characters of a name in a line: clients choose names, and may choose 32 KB."""

AUDIT_LOGGER: Final = "kafka.authorizer.logger"
"""The name that Kafka's brokers use."""

_ROOT: Final = "ottla"
_LIFE_CYCLE: Final = "ottla.node"


class Logger:
    """Takes fields as keywords; `exc_info` is an exception to show with its traceback."""

    __slots__ = ("_log", "shows_debug")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self.shows_debug = log.isEnabledFor(logging.DEBUG)
        """True if lines of that level are written. For callers that cannot afford the call; true of
        what was set by `configure`, and followed by `levels_changed`."""
        _made.append(self)

    @property
    def name(self) -> str:
        return self._log.name

    def refresh(self) -> None:
        self.shows_debug = self._log.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, *values: object, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, event, values, fields)

    def info(self, event: str, /, *values: object, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, event, values, fields)

    def warning(self, event: str, /, *values: object, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, event, values, fields)

    def error(self, event: str, /, *values: object, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, event, values, fields)

    def exception(self, event: str, /, *values: object, **fields: Any) -> None:
        """Log an error with the traceback of the exception being handled."""
        if self._log.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, event, values, {"exc_info": True, **fields})

    def critical(self, event: str, /, *values: object, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.CRITICAL):
            self._emit(logging.CRITICAL, event, values, fields)

    def _emit(
        self, level: int, event: str, values: tuple[object, ...], fields: dict[str, Any]
    ) -> None:
        error = fields.pop("exc_info", None)
        self._log.log(level, event, *values, exc_info=error, extra={"fields": fields}, stacklevel=3)


_made: Final[list[Logger]] = []


def shortened(text: str) -> str:
    """Return the text as a line shows it, if its length is not ours to choose."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text)} characters)"


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(name))


def levels_changed() -> None:
    """Call this after levels were set."""
    for made in _made:
        made.refresh()


class LevelError(ValueError):
    """An invalid log level; the message says what is expected."""


def parse_levels(spec: str | Iterable[str]) -> dict[str, int]:
    """Return levels by logger, from texts like `info` and `ottla.storage=debug`, also joined by
    commas. A level without a name is for all of Ottla."""
    texts = spec.split(",") if isinstance(spec, str) else [s for t in spec for s in t.split(",")]
    levels: dict[str, int] = {}
    for text in filter(None, map(str.strip, texts)):
        name, equals, word = text.rpartition("=")
        if word.strip().lower() not in LEVELS or (equals and not name.strip()):
            raise LevelError(
                f"{text!r} is no log level: expected LEVEL or LOGGER=LEVEL "
                f"with one of {', '.join(LEVELS)}"
            )
        levels[name.strip() or _ROOT] = LEVELS[word.strip().lower()]
    return levels


def configure(
    level: str | Iterable[str] = "warning", form: str = "human", stream: TextIO | None = None
) -> None:
    """Send all logs of this process to `stream` (standard error) in the given form.

    At the quiet default the node's few lifecycle lines are still shown, and those of the audit log.
    """
    levels = {_ROOT: logging.WARNING} | parse_levels(level)
    if levels[_ROOT] == logging.WARNING:
        levels.setdefault(_LIFE_CYCLE, logging.INFO)
    levels.setdefault(AUDIT_LOGGER, logging.INFO)
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter(target.isatty()))
    logging.root.handlers[:] = [handler]
    audit = logging.StreamHandler(target)
    audit.setFormatter(JsonFormatter(ascii_only=True))
    audit_logger = logging.getLogger(AUDIT_LOGGER)
    audit_logger.handlers[:] = [audit]
    audit_logger.propagate = False
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    levels_changed()


class HumanFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123 WARNING network  refusing a connection  peer=10.0.0.1:5`"""

    default_msec_format = "%s.%03d"
    _COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
    _PLAIN: Final = "\x1b[0m"

    def __init__(self, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if self._colour and (colour := self._COLOURS.get(record.levelname)):
            level = f"{colour}{level}{self._PLAIN}"
        concern = record.name.removeprefix(_ROOT + ".")
        # The text may contain client input, which must not be able to begin a new line.
        event = visible(record.getMessage())
        line = f"{self.formatTime(record)} {level} {concern}  {event}"
        if fields := _fields(record):
            line += "  " + " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """A JSON object per line: time, level, logger, event, then the fields."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        """`ascii_only`: escape all other characters, of which terminals and tools obey some."""
        super().__init__()
        self._ascii_only = ascii_only

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in _fields(record).items():
            entry[f"{name}_" if name in entry else name] = value
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        import json

        return json.dumps(entry, default=_text, ensure_ascii=self._ascii_only)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _utc(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _quoted(value: object) -> str:
    """Return the value as it is if that is unambiguous, else as a JSON string."""
    text = _text(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    import json  # here, because clients import this module and may never need it

    return json.dumps(text, ensure_ascii=not text.isprintable())


def visible(text: str, keep: str = "") -> str:
    """Return the text with escapes in place of unprintable characters, except `keep`."""
    if text.isprintable():
        return text
    return "".join(one if one in keep else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
