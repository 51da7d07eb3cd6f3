"""Where a command takes a password from: never from its arguments, which other users can see."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ottla.cli.given_file import CannotRead

PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="A file whose first line is the password; - is standard input.",
    ),
]
PasswordEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--password-env", metavar="NAME", help="An environment variable that has the password."
    ),
]


def read_password(user: str, file: Path | None, env: str | None) -> str:
    """Return the password; ask for it, twice, if no option says where it is."""
    if file is not None and env is not None:
        raise typer.BadParameter("give --password-file or --password-env, not both")
    if env is not None:
        password = os.environ.get(env, "")
        if not password:
            raise typer.BadParameter(f"--password-env: {env} is not set")
    elif file is not None:
        password = _first_line(file)
        if not password:
            raise typer.BadParameter(f"--password-file: the first line of {file} is empty")
    elif sys.stdin.isatty():
        password = typer.prompt(
            f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        raise typer.BadParameter(
            "there is no terminal to ask at: give --password-file or --password-env"
        )
    return password


def _first_line(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.readline().rstrip("\r\n")
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline().rstrip("\r\n")
    except OSError as error:
        raise CannotRead(file, error) from error
