"""A regular expression as a tree."""

from __future__ import annotations

import string
from typing import Final, NamedTuple, TypeAlias

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""All characters that topic names may have."""


class Chars(NamedTuple):
    """Matches one of these characters."""

    allowed: frozenset[str]


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    options: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


class Place(NamedTuple):
    """Matches no character, but only at certain places: start, end, word or nonword."""

    kind: str


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Place

EMPTY: Final = Sequence(())


def size_of(node: Node) -> int:
    """Return the number of states that its automaton needs, with repetitions written out."""
    match node:
        case Sequence(parts) | Choice(parts):
            return 1 + sum(map(size_of, parts))
        case Repeat(part, least, most):
            return 1 + size_of(part) * max(least + 1 if most is None else most, 1)
        case _:
            return 1


def literal_prefix(node: Node) -> str:
    """Return the literal text that every match begins with. Most expressions have one, and it rules
    out most topics."""
    prefix = ""
    parts = node.parts if isinstance(node, Sequence) else (node,)
    for part in parts:
        if isinstance(part, Chars) and len(part.allowed) == 1:
            prefix += next(iter(part.allowed))
        elif not isinstance(part, Place):
            break
    return prefix
