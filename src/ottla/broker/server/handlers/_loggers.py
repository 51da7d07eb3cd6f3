"""The broker's loggers as a config resource: their levels can be read and changed while it runs.

Levels have Kafka's names, and ROOT is the logger above all others. Changes do not survive a
restart.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.broker.controller.alter_configs import KeyChange, Operation, check_keys
from ottla.logs import AUDIT_LOGGER, levels_changed
from ottla.protocol.errors import ErrorCode, KafkaError

ROOT = "root"
_OWN = "ottla"

_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_NAMES = {
    logging.CRITICAL: "FATAL",
    logging.ERROR: "ERROR",
    logging.WARNING: "WARN",
    logging.INFO: "INFO",
    logging.DEBUG: "DEBUG",
}


def logger_levels() -> dict[str, str]:
    """Return every logger of the broker with its effective level, its own or an inherited one."""
    found = sorted(name for name in logging.root.manager.loggerDict if _is_own(name))
    levels = {name: _level_name(logging.getLogger(name)) for name in found}
    return {ROOT: _level_name(logging.root), **levels}


def alter_levels(changes: Sequence[KeyChange], *, validate_only: bool) -> None:
    """Set levels; DELETE makes a logger follow its parent again. All changes are made or none."""
    check_keys(changes)
    for change in changes:
        _check(change)
    if validate_only:
        return
    for change in changes:
        if change.operation == Operation.SET:
            _logger(change.key).setLevel(_LEVELS[change.value or ""])
        else:
            _logger(change.key).setLevel(logging.NOTSET)
    levels_changed()


def _check(change: KeyChange) -> None:
    if change.key not in logger_levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.key} does not exist!")
    if change.operation == Operation.SET:
        if change.value not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.key} to {change.value} as it is not a "
                f"supported log level. Valid log levels are {', '.join(_LEVELS)}",
            )
    elif change.operation != Operation.DELETE:
        name = Operation(change.operation).name
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{name} operation is not allowed for the BROKER_LOGGER resource",
        )
    elif change.key == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )


def _is_own(name: str) -> bool:
    return name in (_OWN, AUDIT_LOGGER) or name.startswith(f"{_OWN}.")


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return _NAMES.get(level) or next(
        (name for number, name in _NAMES.items() if level >= number), "DEBUG"
    )
