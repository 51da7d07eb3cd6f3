"""Structured logs: an event in words, and fields beside it.

    log = get_logger("ottla.network")
    log.warning("closing a connection", peer=peer, reason=reason)

One logger a concern, underneath the standard library's `logging`, so that other libraries' lines
come out in the same form and levels can change while the broker runs. A call below the level costs
one comparison: fields are passed as they are and put into words only by a handler.
"""

import json
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

# The concerns of a broker, for `--log-level ottla.storage=debug` and for the documentation.
LOGGERS: Final = {
    "ottla.node": "start, stop, and what made the node stop",
    "ottla.network": "connections: refused, broken, closed",
    "ottla.request": "every request (debug)",
    "ottla.storage": "logs and log folders",
    "ottla.storage.recovery": "what was mended after a crash",
    "ottla.metadata": "the metadata log and its image",
    "ottla.controller": "decisions on topics, partitions and configurations",
    "ottla.cleaner": "compaction",
    "ottla.authorizer": "who was refused what",
    "ottla.quotas": "who was throttled and why",
    "ottla.runtime": "background tasks that failed",
}

_ROOT: Final = "ottla"
_LIFE_CYCLE: Final = "ottla.node"


class Logger:
    """Takes fields as keywords; `exc_info` is an exception to show with its traceback."""

    __slots__ = ("_log",)

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    @property
    def name(self) -> str:
        return self._log.name

    def debug(self, event: str, /, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """An error with the traceback of the exception being handled."""
        self.error(event, **{"exc_info": True, **fields})

    def critical(self, event: str, /, **fields: Any) -> None:
        if self._log.isEnabledFor(logging.CRITICAL):
            self._emit(logging.CRITICAL, event, fields)

    def _emit(self, level: int, event: str, fields: dict[str, Any]) -> None:
        error = fields.pop("exc_info", None)
        self._log.log(level, event, exc_info=error, extra={"fields": fields}, stacklevel=3)


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(name))


class LevelError(ValueError):
    """A log level that is none, or none for a logger; the message says what is expected."""


def parse_levels(spec: str | Iterable[str]) -> dict[str, int]:
    """Levels by logger, from texts like `info` and `ottla.storage=debug`, also joined by commas.
    A level without a name is for all of Ottla."""
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
    """Sends all logs of this process to `stream` (standard error) in the given form.

    At the quiet default the node's few life-cycle lines are shown all the same.
    """
    levels = {_ROOT: logging.WARNING} | parse_levels(level)
    if levels[_ROOT] == logging.WARNING:
        levels.setdefault(_LIFE_CYCLE, logging.INFO)
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter(target.isatty()))
    logging.root.handlers[:] = [handler]
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)


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
        # What a client sent may be in the text: it must not be able to begin a line of its own.
        event = _one_line(record.getMessage())
        line = f"{self.formatTime(record)} {level} {concern}  {event}"
        if fields := _fields(record):
            line += "  " + " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, then the fields."""

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
        return json.dumps(entry, default=_text, ensure_ascii=False)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _utc(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _quoted(value: object) -> str:
    """The value as it is where that cannot be misread, else as a JSON string."""
    text = _text(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
