"""Adds the settings to `help(Producer)`, from their declarations.

This costs nothing at import: the text is made when `__doc__` is read for the first time.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

C = TypeVar("C", bound=type)

WIDTH = 92
SETTINGS_HEADING = "\nSettings, as keyword arguments:\n"


def lists_settings(settings: type) -> Callable[[C], C]:
    """Add the keyword arguments that `settings` declares to the docstring of a client."""

    def decorate(client: C) -> C:
        if client.__doc__ is not None:  # it is None with `python -OO`
            # A class that finds a descriptor here returns what its `__get__` returns.
            client.__doc__ = _Documentation(client.__doc__, settings)  # type: ignore[assignment]
        return client

    return decorate


class _Documentation:
    """The docstring of a class and of its instances."""

    def __init__(self, head: str, settings: type) -> None:
        self._head = head
        self._settings = settings
        self._text: str | None = None

    def __get__(self, instance: object, owner: type | None = None) -> str:
        if self._text is None:
            head, listed = inspect.cleandoc(self._head), settings_text(self._settings)
            self._text = f"{head}\n{SETTINGS_HEADING}{listed}"
        return self._text


def settings_text(kind: type) -> str:
    """Return a paragraph per setting: name, default, meaning; settings of all clients last."""
    known = meanings(kind)
    lines: list[str] = []
    for field in sorted(fields(kind), key=lambda field: field.name not in kind.__annotations__):
        lines.append(f"  {field.name}={field.default!r}")
        lines += textwrap.wrap(
            known.get(field.name, ""), WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)


def meanings(kind: type) -> dict[str, str]:
    """Return the string below each field of a dataclass and its bases, which Python discards.

    Empty if there is no source, as in an application packed without it.
    """
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.getsource(one)
        except OSError:
            continue
        (body,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = " ".join(words.split())
    return found
