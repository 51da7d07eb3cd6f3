"""The root of all commands except `start`: it knows their names and imports only the one called.

This module imports typer and nothing else; rich, asyncio and the client come with the commands that
use them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

MODULES = {
    "start": "ottla.cli.start_entry",
    "produce": "ottla.cli.records.produce",
    "consume": "ottla.cli.records.consume",
    "topics": "ottla.cli.topics.commands",
    "configs": "ottla.cli.configs",
    "offsets": "ottla.cli.offsets",
    "groups": "ottla.cli.groups.commands",
    "transactions": "ottla.cli.transactions",
    "users": "ottla.cli.security.users",
    "tokens": "ottla.cli.security.tokens",
    "acls": "ottla.cli.security.acls.commands",
    "quotas": "ottla.cli.security.quotas",
    "cluster": "ottla.cli.cluster.commands",
    "quorum": "ottla.cli.cluster.quorum",
    "log-dirs": "ottla.cli.logs.log_dirs",
    "storage": "ottla.cli.nodes.storage",
    "dump-log": "ottla.cli.logs.dump_log",
    "perf": "ottla.cli.records.perf",
    "pipeline": "ottla.cli.pipelines.commands",
    "demo": "ottla.cli.demo",
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported by name, and whose failures are printed as one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Typer proposes close matches for a mistyped command from the keys of this mapping.
        self.commands = dict.fromkeys(MODULES)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        module = MODULES.get(cmd_name)
        if module is None:
            return None
        command = typer.main.get_command(import_module(module).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from ottla.cli.kafka_habits import tool_named

        if args and args[0] not in MODULES and (command := tool_named(args[0])):
            ctx.fail(f"No such command {args[0]!r}: it is `ottla {command}`.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            from ottla.cli.failure import exit_code, explain
            from ottla.cli.output import print_note

            line = explain(error)
            if line is None:
                raise
            print_note(f"ottla: {line}")
            raise typer.Exit(exit_code(error)) from error


app = typer.Typer(
    name="ottla",
    cls=LazyGroup,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ottla import __version__

        print(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Ottla: an event-streaming broker that speaks Kafka's protocol, and its tools.

    The tools work against any cluster that speaks the protocol. Name it with --bootstrap HOST:PORT
    or in the environment variable OTTLA_BOOTSTRAP; TLS and SASL are set up with --command-config
    FILE or -X KEY=VALUE, in Kafka's names.
    """
