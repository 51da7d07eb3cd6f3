"""`ottla start`: runs a broker in this process until Ctrl-C, or with --nodes a cluster of them.

Nothing is imported here that the broker does not need: start-up is measured in milliseconds.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.nodes.secure_folder import SecureFolder
    from ottla.config.broker import BrokerConfig
    from ottla.config.properties import Properties
    from ottla.node import Node

DATA_DEFAULT = "data"
LISTENER_DEFAULT = "localhost:9092"
METRICS_DEFAULT = "localhost:9404"
SECURE_FOLDER = "secure"

DESCRIPTION = """\
Start a broker and serve until Ctrl-C.

Settings have Kafka's names, defaults and meanings. A setting given by an option wins over the file.
"""
EXAMPLES = """\
examples:
  ottla start
  ottla start --data /var/lib/ottla --listener 0.0.0.0:9092
  ottla start --config server.properties -o log.retention.hours=24
  ottla start --nodes 3                                   # a cluster on this machine
  ottla start --secure                                    # TLS, users and ACLs
  ottla start --metrics                                   # for Prometheus, on port 9404
"""


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    from ottla.runtime.collector import starting

    starting()
    began = _started_at()
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        _configure_logs(options.log_levels or ["warning"], options.log_format)
        if options.nodes is not None and options.nodes < 1:
            raise UsageError("--nodes: 1 or more")
        if options.secure and options.config:
            raise UsageError("--secure makes its own settings: leave --config out")
        metrics_at = _metrics_address(options.metrics)
        if options.nodes is not None and options.nodes > 1:
            return _start_nodes(options, began, metrics_at)
        if options.secure:
            return _start_secure(options, began, metrics_at)
        settings = gathered(
            options.data,
            options.listeners or [],
            options.config is not None,
            dict(options.overrides or []),
        )
        file_settings = _read(options.config) if options.config else None
        if options.listeners and file_settings is not None:
            _keep_controllers(file_settings, settings)
    except UsageError as error:
        parser.error(str(error))
    config = _config(file_settings, settings)
    if config is None:
        return 2
    complaint = _cluster_in(config)
    if file_settings is None:
        complaint = complaint or _secured_in(Path(config.log_dirs[0]))
    if complaint:
        parser.error(complaint)
    return _run(config, lambda node: _say_ready(node, began), metrics_at)


class UsageError(Exception):
    """An option that cannot be used; the message is for the user."""


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ottla start",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", "-d", metavar="DIR", help=f"where to keep records (default: {DATA_DEFAULT})")
    add(
        "--listener",
        "-l",
        dest="listeners",
        action="append",
        metavar="HOST:PORT",
        help="where to listen for clients; port 0 picks a free one; may be repeated "
        f"(default: {LISTENER_DEFAULT})",
    )
    add("--config", "-c", metavar="FILE", help="a server.properties, as Kafka's")
    add(
        "--nodes",
        "-n",
        type=int,
        metavar="N",
        help="so many nodes on this machine, each a process with a folder of its own in DIR, on "
        "consecutive ports from the given one",
    )
    add(
        "--secure",
        action="store_true",
        help="for a first try of security: TLS with an authority of its own, one super user, ACLs; "
        "keys and passwords are kept in DIR/secure",
    )
    add(
        "--metrics",
        nargs="?",
        const=METRICS_DEFAULT,
        metavar="HOST:PORT",
        help="serve /metrics for Prometheus, /health and /ready, for all who reach that address "
        f"(without one: {METRICS_DEFAULT}); with --nodes on consecutive ports",
    )
    add(
        "-o",
        dest="overrides",
        action="append",
        type=_pair,
        metavar="KEY=VALUE",
        help="a broker setting; may be repeated",
    )
    add(
        "--log-level",
        dest="log_levels",
        action="append",
        metavar="[LOGGER=]LEVEL",
        help="debug, info, warning, error or critical; may be repeated for single loggers "
        "(default: warning)",
    )
    add("--log-format", default="human", metavar="FORM", help="human (default) or json")
    return parser


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ArgumentTypeError(f"expected KEY=VALUE, not {text!r}")
    return key.strip(), value


SETTLE_AFTER_S = 1.0
"""Settling takes a hundredth of a second, for which the first clients should not wait."""


def _run(
    config: BrokerConfig, started: Callable[[Node], object], metrics_at: tuple[str, int] | None
) -> int:
    from ottla.node import run
    from ottla.runtime.collector import settle

    def started_and_settled(node: Node) -> None:
        started(node)
        node.runtime.call_later(SETTLE_AFTER_S, settle)

    try:
        return run(config, started_and_settled, metrics_at)
    except Exception as error:
        line = explain(error, config)
        if line is None:
            raise
        print(f"ottla: {line}", file=sys.stderr)
        return 1


def explain(error: Exception, config: BrokerConfig) -> str | None:
    """Return why a broker could not start, and what to do; None for a bug."""
    import errno
    from socket import gaierror

    from ottla.broker.membership.lifecycle import Unregistrable
    from ottla.broker.metadata.features import FeaturesUnsupported
    from ottla.broker.metadata.replay import MetadataLogDamaged
    from ottla.broker.storage.dirs.log_dir import LogDirInUse, LogDirUnidentified
    from ottla.broker.storage.errors import CorruptFile, StorageError
    from ottla.config.errors import ConfigError
    from ottla.protocol.errors import KafkaError

    if isinstance(error, gaierror):
        hosts = ", ".join(_show(listener.host, listener.port) for listener in config.listeners)
        return f"cannot listen on {hosts}: {error.strerror}"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        advice = {errno.EADDRINUSE: "; is another broker running? --listener HOST:0 picks a port"}
        return f"{place}{error.strerror or error}{advice.get(error.errno or 0, '')}"
    told = (KafkaError, CorruptFile, LogDirInUse, LogDirUnidentified, StorageError)
    of_node = (ConfigError, Unregistrable, FeaturesUnsupported, MetadataLogDamaged)
    if isinstance(error, (*told, *of_node)):
        return str(error)
    return None


# Secured


def _start_secure(options: Namespace, began: float, metrics_at: tuple[str, int] | None) -> int:
    overrides = dict(options.overrides or [])
    if len(options.listeners or []) > 1 or "listeners" in overrides:
        raise UsageError("--secure takes one --listener")
    host, port = _address((options.listeners or [LISTENER_DEFAULT])[0])
    settings = gathered(options.data, [], False, {})
    folder = _open_secure(Path(settings["log.dirs"]), host)
    settings |= folder.node_settings(has_controllers=False)
    settings |= {"listeners": f"SASL_SSL://{_show(host, port)}"} | overrides
    config = _config(None, settings)
    if config is None:
        return 2
    if complaint := _cluster_in(config):
        raise UsageError(complaint)

    def started(node: Node) -> None:
        _say_ready(node, began)
        places = [_show(endpoint.host, endpoint.port) for endpoint in node.endpoints]
        _say_secured(folder, places)

    return _run(config, started, metrics_at)


def _secured_in(data: Path) -> str | None:
    """Return why a folder of a secured broker cannot be used without security, or None."""
    if not (data / SECURE_FOLDER).exists():
        return None
    return (
        f"{data} was started with --secure: use it again, or remove {data / SECURE_FOLDER}; then "
        "anybody may do everything"
    )


def _open_secure(data: Path, host: str) -> SecureFolder:
    from ottla.cli.nodes.secure_folder import open_folder

    path = data.resolve() / SECURE_FOLDER
    try:
        folder = open_folder(path, host)
        # The metadata log has the keys of users, and settings of brokers.
        data.chmod(0o700)
        return folder
    except OSError as error:
        raise UsageError(f"--secure: {error.filename or path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--secure: {error}") from error


def _say_secured(folder: SecureFolder, places: Sequence[str]) -> None:
    """Print, in one line each, how clients connect."""
    folder.write_client_files(",".join(places))
    for line in folder.how_to_connect():
        print(line, flush=True)


# Several nodes


def _start_nodes(options: Namespace, began: float, metrics_at: tuple[str, int] | None) -> int:
    from ottla.cli.nodes.folder import FolderUnusable
    from ottla.cli.nodes.start import NODES_MAX, start_nodes

    if options.nodes > NODES_MAX:
        raise UsageError(f"--nodes: at most {NODES_MAX}")
    if len(options.listeners or []) > 1:
        raise UsageError("--nodes takes one --listener: where the first node listens")
    data = Path(options.data or DATA_DEFAULT).resolve()
    from_file = _read(options.config) if options.config else None
    given = dict(from_file or {}) | dict(options.overrides or [])
    if _config(from_file, dict(options.overrides or [])) is None:
        return 2
    address = _address((options.listeners or [LISTENER_DEFAULT])[0])
    folder = _open_secure(data, address[0]) if options.secure else None
    if folder is None and from_file is None and (complaint := _secured_in(data)):
        raise UsageError(complaint)
    if folder is not None:
        given = folder.node_settings(has_controllers=True) | given

    def started(places: Sequence[str]) -> None:
        _say(", ".join(places), f"{data} ({len(places)} nodes)", began)
        if folder is not None:
            _say_secured(folder, places)

    for_nodes = [f"--log-format={options.log_format}"]
    for_nodes += [f"--log-level={level}" for level in options.log_levels or []]
    try:
        return start_nodes(
            options.nodes,
            data,
            address,
            given,
            lambda number: [*for_nodes, *_metrics_options(metrics_at, number)],
            started,
        )
    except FolderUnusable as error:
        raise UsageError(str(error)) from error


def _metrics_address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--metrics: {text!r} is not HOST:PORT, as {METRICS_DEFAULT} is")
    return host.strip("[]"), int(port)


def _metrics_options(metrics_at: tuple[str, int] | None, number: int) -> list[str]:
    """Return the option for a node of several: each has a port of its own."""
    if metrics_at is None:
        return []
    host, port = metrics_at
    return [f"--metrics={_show(host, port + number - 1 if port else 0)}"]


def _address(text: str) -> tuple[str, int]:
    listener_settings([text])
    host, _, port = text.rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def _cluster_in(config: BrokerConfig) -> str | None:
    """Return why a folder that holds several nodes cannot be used for a single one, or None."""
    for folder in config.log_dirs:
        if Path(folder, "nodes.properties").exists():
            return f"{folder} holds the nodes of a cluster: start them with --nodes"
    return None


def _say_ready(node: Node, began: float) -> None:
    endpoints = node.endpoints or node.controller_endpoints
    places = ", ".join(_show(endpoint.host, endpoint.port) for endpoint in endpoints)
    bound = ", ".join(_show(host or "*", port) for host, port in node.addresses)
    if any((endpoint.host, endpoint.port) not in node.addresses for endpoint in node.endpoints):
        places += f" (listening on {bound})"
    folders = ", ".join(str(Path(folder).resolve()) for folder in node.config.log_dirs)
    _say(places, folders, began)
    if node.metrics_address is not None:
        _print(f"Metrics: http://{_show(*node.metrics_address)}/metrics")


def _say(places: str, folders: str, began: float) -> None:
    from ottla import __version__
    from ottla.runtime.clock import SystemClock

    taken = SystemClock().now() - began
    _print(f"Ottla {__version__} ready in {taken:.2f} s: {places}, data in {folders}")


def _print(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:
        # The terminal or the reader of a pipe is gone. Clients are served all the same, and the
        # rest of the line must not fail again when Python ends.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _show(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _started_at() -> float:
    """Return when this process began: the reported time includes the interpreter's start."""
    from ottla.runtime.clock import SystemClock

    clock = SystemClock()
    return clock.now() - process_age_s()


def process_age_s() -> float:
    """Return the seconds since the OS started this process; 0 if unknown."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    from os import sysconf

    return max(0.0, uptime_s - ticks / sysconf("SC_CLK_TCK"))


# Settings


def _config(from_file: Properties | None, from_options: Mapping[str, str]) -> BrokerConfig | None:
    """Return the settings of file and options; print all problems and return None if invalid."""
    from ottla.config.broker import BrokerConfig
    from ottla.config.errors import ConfigError
    from ottla.config.properties import Properties

    settings = from_file if from_file is not None else Properties()
    for key, value in from_options.items():
        settings[key] = value
        settings.where.pop(key, None)
    try:
        return BrokerConfig.parse(settings)
    except ConfigError as error:
        print("ottla: the configuration cannot be used:", file=sys.stderr)
        for line in str(error).splitlines():
            print(f"  {line}", file=sys.stderr)
        return None


def gathered(
    data: str | None, listeners: list[str], has_file: bool, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that the options stand for; defaults if nothing else sets them."""
    settings = (
        {} if has_file else {"log.dirs": DATA_DEFAULT} | listener_settings([LISTENER_DEFAULT])
    )
    settings |= overrides
    for option, given, key in (
        ("--data", data, "log.dirs"),
        ("--listener", listeners, "listeners"),
    ):
        if given and key in overrides:
            raise UsageError(f"{option} and -o {key}=... say the same twice")
    if data == "":
        raise UsageError("--data wants the name of a folder")
    if data:
        settings["log.dirs"] = data
    if listeners:
        settings |= listener_settings(listeners)
    return settings


def listener_settings(listeners: list[str]) -> dict[str, str]:
    """Return `HOST:PORT` texts as Kafka's settings; `NAME://HOST:PORT` is passed on unchanged."""
    named: dict[str, str] = {}
    for text in listeners:
        name, slashes, address = text.partition("://")
        if not slashes:
            name, address = ("PLAINTEXT" if not named else f"PLAINTEXT_{len(named) + 1}"), text
        if ":" not in address or not address.rpartition(":")[2].isdigit():
            raise UsageError(f"--listener: {text!r} is not HOST:PORT, as localhost:9092 is")
        named[name] = address
    settings = {"listeners": ",".join(f"{name}://{place}" for name, place in named.items())}
    if any(name.startswith("PLAINTEXT_") for name in named):
        settings["listener.security.protocol.map"] = ",".join(
            f"{name}:{'PLAINTEXT' if name.startswith('PLAINTEXT') else name}" for name in named
        )
    return settings


def _keep_controllers(from_file: Properties, from_options: dict[str, str]) -> None:
    """Keep the file's controller listeners. `--listener` is about clients: it replaces the file's
    other listeners and its advertised ones."""
    names = _items(from_file.get("controller.listener.names", ""))
    kept = [
        text
        for text in _items(from_file.get("listeners", ""))
        if text.partition("://")[0].strip() in names
    ]
    from_options["listeners"] = ",".join([from_options["listeners"], *kept])
    from_file.pop("advertised.listeners", None)
    protocols = "listener.security.protocol.map"
    if protocols in from_options:
        known = _items(from_file.get(protocols, ""))
        from_options[protocols] = ",".join(dict.fromkeys([*known, from_options[protocols]]))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _read(path: str) -> Properties:
    from ottla.config.properties import PropertiesError, parse_properties

    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: not UTF-8 text") from error
    except PropertiesError as error:
        raise UsageError(str(error)) from error


def _configure_logs(levels: list[str], form: str) -> None:
    from ottla.logs import FORMS, LevelError, configure

    if form not in FORMS:
        raise UsageError(f"--log-format: {form!r} is none of {', '.join(FORMS)}")
    try:
        configure(levels, form)
    except LevelError as error:
        raise UsageError(f"--log-level: {error}") from error
