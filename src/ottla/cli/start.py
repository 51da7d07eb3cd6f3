"""`ottla start`: a broker in this process, until Ctrl-C.

Nothing is imported here that the broker does not need: start-up is counted in milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import new_app, parse_pairs

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.node import Node

app = new_app()

DATA_DEFAULT = "data"
LISTENER_DEFAULT = "localhost:9092"


@app.command()
def start(
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="DIR", help="Where to keep records.  [default: data]"),
    ] = None,
    listeners: Annotated[
        list[str] | None,
        typer.Option(
            "--listener",
            "-l",
            metavar="HOST:PORT",
            help="Where to listen; port 0 picks a free one. May be repeated."
            f"  [default: {LISTENER_DEFAULT}]",
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="FILE", help="A server.properties as Kafka's."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="KEY=VALUE", help="A broker setting; wins over the file."),
    ] = None,
    log_levels: Annotated[
        list[str] | None,
        typer.Option(
            "--log-level",
            metavar="[LOGGER=]LEVEL",
            help="debug, info, warning, error or critical; may be repeated for single loggers."
            "  [default: warning]",
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option("--log-format", help="human, or json for log collectors.")
    ] = "human",
) -> None:
    """Start a broker and serve until Ctrl-C.

    Settings have Kafka's names, defaults and meanings. Of settings given twice the option wins over
    the file.

    Examples:

    - `ottla start`

    - `ottla start --data /var/lib/ottla --listener 0.0.0.0:9092`

    - `ottla start --config server.properties -o log.retention.hours=24`
    """
    began = _started_at()
    _configure_logs(log_levels or ["warning"], log_format)
    config = _config(data, listeners or [], config_file, parse_pairs(overrides or [], "-o"))
    raise typer.Exit(_run(config, lambda node: _say_ready(node, began)))


def _run(config: BrokerConfig, started: Callable[[Node], object]) -> int:
    from ottla.node import run
    from ottla.protocol.errors import KafkaError

    try:
        return run(config, started)
    except (KafkaError, OSError) as error:
        print(f"ottla: {_explain(error)}", file=sys.stderr)
        return 1


def _explain(error: BaseException) -> str:
    import errno

    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {text}"
    advice = {
        errno.EADDRINUSE: "; is another broker running? --listener HOST:0 picks a free port",
        errno.EACCES: "; choose another with --data or --listener",
    }
    return text + advice.get(getattr(error, "errno", None) or 0, "")


def _say_ready(node: Node, began: float) -> None:
    from ottla import __version__
    from ottla.runtime.clock import SystemClock

    places = ", ".join(_show(endpoint.host, endpoint.port) for endpoint in node.endpoints)
    folders = ", ".join(str(Path(folder).resolve()) for folder in node.config.log_dirs)
    taken = SystemClock().now() - began
    print(f"Ottla {__version__} ready in {taken:.2f} s: {places}, data in {folders}", flush=True)


def _show(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _started_at() -> float:
    """When this process began, so that the time told includes the interpreter's own start."""
    from ottla.runtime.clock import SystemClock

    clock = SystemClock()
    return clock.now() - process_age_s()


def process_age_s() -> float:
    """Seconds since the OS started this process; 0 where it does not tell."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    from os import sysconf

    return max(0.0, uptime_s - ticks / sysconf("SC_CLK_TCK"))


# Settings


def _config(
    data: str | None, listeners: list[str], config_file: str | None, overrides: Mapping[str, str]
) -> BrokerConfig:
    from ottla.config.broker import BrokerConfig
    from ottla.config.errors import ConfigError
    from ottla.config.properties import Properties, PropertiesError, parse_properties

    settings = Properties()
    try:
        if config_file is not None:
            settings = parse_properties(_read(config_file), config_file)
        for key, value in gathered(data, listeners, config_file is not None, overrides).items():
            settings[key] = value
            settings.where.pop(key, None)
        return BrokerConfig.parse(settings)
    except (ConfigError, PropertiesError) as error:
        print("ottla: the configuration cannot be used:", file=sys.stderr)
        for line in str(error).splitlines():
            print(f"  {line}", file=sys.stderr)
        raise typer.Exit(2) from error


def gathered(
    data: str | None, listeners: list[str], has_file: bool, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The settings that the options stand for; ours where neither they nor a file say anything."""
    settings = (
        {} if has_file else {"log.dirs": DATA_DEFAULT} | listener_settings([LISTENER_DEFAULT])
    )
    settings |= overrides
    for option, given, key in (
        ("--data", data, "log.dirs"),
        ("--listener", listeners, "listeners"),
    ):
        if given and key in overrides:
            raise typer.BadParameter(f"{option} and -o {key}=... say the same twice")
    if data:
        settings["log.dirs"] = data
    if listeners:
        settings |= listener_settings(listeners)
    return settings


def listener_settings(listeners: list[str]) -> dict[str, str]:
    """`HOST:PORT` texts as Kafka's settings; `NAME://HOST:PORT` is passed on as it is."""
    named: dict[str, str] = {}
    for text in listeners:
        name, slashes, address = text.partition("://")
        if not slashes:
            name, address = ("PLAINTEXT" if not named else f"PLAINTEXT_{len(named) + 1}"), text
        if ":" not in address or not address.rpartition(":")[2].isdigit():
            raise typer.BadParameter(
                f"{text!r} is not HOST:PORT, for example localhost:9092", param_hint="--listener"
            )
        named[name] = address
    settings = {"listeners": ",".join(f"{name}://{place}" for name, place in named.items())}
    if any(name.startswith("PLAINTEXT_") for name in named):
        settings["listener.security.protocol.map"] = ",".join(
            f"{name}:{'PLAINTEXT' if name.startswith('PLAINTEXT') else name}" for name in named
        )
    return settings


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise typer.BadParameter(f"cannot read {path}: {reason}", param_hint="--config") from error


def _configure_logs(levels: list[str], form: str) -> None:
    from ottla import logs

    if form not in logs.FORMS:
        raise typer.BadParameter(
            f"{form!r} is none of {', '.join(logs.FORMS)}", param_hint="--log-format"
        )
    try:
        logs.configure(levels, form)
    except logs.LevelError as error:
        raise typer.BadParameter(str(error), param_hint="--log-level") from error
