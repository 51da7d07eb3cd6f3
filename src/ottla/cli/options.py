"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from ottla.cli.connection_options import BOOTSTRAP_DEFAULT, PANEL
from ottla.cli.family import Family, FamilyGroup

__all__ = [
    "BOOTSTRAP_DEFAULT",
    "TIMEOUT_MS_DEFAULT",
    "Bootstrap",
    "BootstrapController",
    "FolderBootstrap",
    "Internal",
    "Json",
    "TimeoutMs",
    "Yes",
    "new_app",
    "parse_pairs",
]

Bootstrap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="OTTLA_BOOTSTRAP",
        help="Brokers to ask first.",
        show_envvar=True,
        show_default=BOOTSTRAP_DEFAULT,
        rich_help_panel=PANEL,
    ),
]

BootstrapController: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT,...",
        help="Controllers to ask instead, by their own listeners.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
FolderBootstrap: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="OTTLA_BOOTSTRAP",
        help="Brokers to ask first; those of the folder, if not given.",
        show_envvar=True,
        show_default=False,
        rich_help_panel=PANEL,
    ),
]

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON with stable field names, for scripts.")
]

TimeoutMs: TypeAlias = Annotated[
    int,
    typer.Option(
        "--timeout-ms", min=1, help="How long one operation may take.", rich_help_panel=PANEL
    ),
]
TIMEOUT_MS_DEFAULT = 30_000

Yes: TypeAlias = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal to ask at."),
]

Internal: TypeAlias = Annotated[
    bool,
    typer.Option("--internal/--no-internal", help="Show what the platform keeps for itself, too."),
]


def new_app(help_text: str | None = None) -> Family:
    """Create a command family with the settings that all families share. Without a text, its help
    is that of its callback, or of its only command."""
    told: dict[str, Any] = {} if help_text is None else {"help": help_text}
    return Family(
        **told,
        cls=FamilyGroup,
        add_completion=False,
        no_args_is_help=help_text is not None,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def parse_pairs(texts: list[str], option: str) -> dict[str, str]:
    """Parse `key=value` options into a mapping; a text without a key is a usage error."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{option} wants KEY=VALUE, not {text!r}")
        pairs[key.strip()] = value
    return pairs
