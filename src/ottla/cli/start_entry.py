"""`ottla start` among the other commands, for `ottla --help` and callers of the root command."""

from __future__ import annotations

import typer

from ottla.cli.options import new_app

app = new_app()


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def start(context: typer.Context) -> None:
    """Start a broker and serve until Ctrl-C."""
    from ottla.cli.start import main

    raise typer.Exit(main(context.args))
