"""Asks before something is destroyed."""

from __future__ import annotations

import sys
from select import select
from typing import Final

import typer

ANSWER_S: Final = 5.0
"""How long to wait for an answer without a terminal: a piped answer is there at once."""

EXIT_NO: Final = 1
EXIT_NOT_ASKED: Final = 2


def want_consent(question: str, yes: bool) -> None:
    """Return if the user agrees; end the command if not.

    Without a terminal nobody can be asked. Then an answer that was piped in counts, and no answer
    means no: scripts give --yes.
    """
    from ottla.cli.output import print_note
    from ottla.logs import visible

    if yes:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"{visible(question)} [y/N]: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            sys.stderr.write("\n")
    else:
        answer = _piped_answer()
    if answer.strip().lower() in ("y", "yes"):
        return
    if answer or sys.stdin.isatty():
        print_note("ottla: nothing was done")
        raise typer.Exit(EXIT_NO)
    print_note(f"ottla: {question} There is no terminal to ask at: give --yes. Nothing was done")
    raise typer.Exit(EXIT_NOT_ASKED)


def _piped_answer() -> str:
    """Return a line of stdin; empty if there is none or none comes in time."""
    try:
        ready, _, _ = select([sys.stdin], [], [], ANSWER_S)
    except (OSError, ValueError):
        return sys.stdin.readline()  # not a real file, as in a test: it cannot block
    return sys.stdin.readline() if ready else ""
