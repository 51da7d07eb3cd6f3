"""How a command connects to its cluster: `--command-config FILE` and `-X KEY=VALUE`, in Kafka's
names.

Every command that has `--bootstrap` has them too: `add_connection_options` adds them to its
signature, and `given_settings` returns their values when a client is made.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from ottla.cli.completion import complete_names
from ottla.cli.given_file import CannotRead

BOOTSTRAP_DEFAULT = "localhost:9092"
PANEL = "Connection"
COMMAND_CONFIG = "OTTLA_COMMAND_CONFIG"

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar=COMMAND_CONFIG,
        show_envvar=True,
        help="A properties file with client settings in Kafka's names, for TLS and SASL.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="A client setting in Kafka's name, such as security.protocol=SSL; may be repeated.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


class Given(NamedTuple):
    """Settings in Kafka's names."""

    by_line: Mapping[str, str]
    """Of the command line: its file and `-X`."""
    by_environment: Mapping[str, str]
    """Of the file that OTTLA_COMMAND_CONFIG names, if the command line names none."""


_given: ContextVar[Given | None] = ContextVar("client settings given", default=None)


def given_settings() -> Mapping[str, str]:
    """Return the settings of the running command's file and `-X`, in Kafka's names."""
    given = given_by_source()
    return {**given.by_environment, **given.by_line}


def given_by_source() -> Given:
    """Return the same, apart by where they come from, for what has settings of its own that take
    precedence over the environment's."""
    return _given.get() or Given({}, {})


def given_options(kind: type[Any]) -> dict[str, Any]:
    """Return the same settings as keyword options of a client with settings of this `kind`."""
    from ottla.client.errors import BadSetting
    from ottla.client.settings.java_names import translate

    try:
        options = translate(given_settings(), kind)
    except BadSetting as error:
        raise typer.BadParameter(str(error), param_hint="-X / --command-config") from error
    options.pop("bootstrap_servers", None)
    return options


def add_connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with two more options, if it has `bootstrap`."""
    signature = inspect.signature(function)
    if "bootstrap" not in signature.parameters:
        return function
    hints = get_type_hints(function, include_extras=True)
    complete_names(hints.values())
    parameters = [
        parameter.replace(
            annotation=hints[name],
            # None: a file may name the brokers.
            default=None if name == "bootstrap" else parameter.default,
        )
        for name, parameter in signature.parameters.items()
    ]
    fallback = signature.parameters["bootstrap"].default

    @wraps(function)
    def connecting(**values: Any) -> Any:
        file, settings = values.pop("command_config"), values.pop("client_settings")
        is_default = file is not None and str(file) == os.environ.get(COMMAND_CONFIG)
        by_environment = read_given(file, None) if is_default else {}
        given = Given(read_given(None if is_default else file, settings), by_environment)
        named = [given.by_line.get("bootstrap.servers")]
        if fallback is not None:  # else what the command runs may name the brokers
            named.append(given.by_environment.get("bootstrap.servers"))
        values["bootstrap"] = next(filter(None, [values["bootstrap"], *named]), fallback)
        token = _given.set(given)
        try:
            return function(**values)
        finally:
            _given.reset(token)

    more = {"command_config": CommandConfig, "client_settings": Settings}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in more.items()
    ]
    connecting.__signature__ = signature.replace(parameters=[*parameters, *added])  # type: ignore[attr-defined]
    connecting.__annotations__ = {**hints, **more}
    del connecting.__wrapped__  # or else its signature would be used
    return connecting


def read_given(file: Path | None, settings: list[str] | None) -> dict[str, str]:
    """Return the settings of the file and of `-X`; `-X` wins."""
    from ottla.cli.options import parse_pairs

    found: dict[str, str] = {}
    if file is not None:
        found |= _read(file)
    for name, value in parse_pairs(settings or [], "-X").items():
        found[name.lower()] = value
    if brokers := found.pop("metadata.broker.list", None):  # as librdkafka calls it
        found["bootstrap.servers"] = brokers
    return found


def _read(file: Path) -> dict[str, str]:
    from ottla.config.properties import PropertiesError, parse_properties

    hint = "--command-config"
    try:
        text = file.read_text(encoding="utf-8")
        return {name.lower(): value for name, value in parse_properties(text, str(file)).items()}
    except OSError as error:
        raise CannotRead(file, error) from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is no UTF-8 text", param_hint=hint) from error
    except PropertiesError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error
