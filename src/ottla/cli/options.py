"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Bootstrap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="OTTLA_BOOTSTRAP",
        help="Brokers to ask first.",
        show_envvar=True,
    ),
]
BOOTSTRAP_DEFAULT = "localhost:9092"

BootstrapController: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT,...",
        help="Controllers to ask instead, by their own listeners.",
        show_default=False,
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
    ),
]

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON with stable field names, for scripts.")
]

TimeoutMs: TypeAlias = Annotated[
    int, typer.Option("--timeout-ms", min=1, help="How long one operation may take.")
]
TIMEOUT_MS_DEFAULT = 30_000


def new_app(help_text: str | None = None) -> typer.Typer:
    """A command family with the settings that all of ours have."""
    return typer.Typer(
        help=help_text,
        add_completion=False,
        no_args_is_help=help_text is not None,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def parse_pairs(texts: list[str], option: str) -> dict[str, str]:
    """`key=value` options as a mapping; a text without a key is a usage error."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{option} wants KEY=VALUE, not {text!r}")
        pairs[key.strip()] = value
    return pairs
