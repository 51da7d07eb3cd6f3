"""YAML whose values know their place, so that every error can name file, line and path.

Only PyYAML's safe rules apply: a file can contain texts, numbers, lists and mappings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ottla.pipelines.errors import InvalidFile

DEPTH_MAX = 20
FILE_BYTES_MAX = 1 << 20
VALUES_MAX = 10_000
"""The most values in a file. An alias counts as all the values it stands for, because aliases of
aliases grow exponentially."""
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class Node:
    """A value: None, bool, int, float, str, list of nodes, or mapping of texts to nodes.

    `base` is the folder at which relative paths of data start.
    """

    value: Any
    file: Path
    line: int
    path: str
    base: Path

    def fail(self, problem: str) -> NoReturn:
        raise InvalidFile(self.file, self.line, self.path, problem)

    def text(self, what: str = "a text") -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            self.fail(f"wants {what}, not {self._shown()}")
        return self.value.strip()

    def texts(self, what: str = "a text or a list of texts") -> list[str]:
        """Return one text as a list, or a non-empty list of texts."""
        if isinstance(self.value, list) and self.value:
            return [each.text() for each in self.value]
        return [self.text(what)]

    def choice(self, allowed: Iterable[str]) -> str:
        names = list(allowed)
        if self.value not in names:
            self.fail(f"{self._shown()} is none of {', '.join(names)}{_hint(self.value, names)}")
        return str(self.value)

    def flat(self) -> str:
        """Return a text, number or boolean as text, as Spark wants its options."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if not isinstance(self.value, str | int | float):
            self.fail(f"wants a text, a number, true or false, not {self._shown()}")
        return str(self.value)

    def mapping(self, allowed: Iterable[str] | None = None) -> dict[str, Node]:
        """Return the fields; with `allowed`, only these are allowed."""
        if not isinstance(self.value, dict):
            self.fail(f"wants a mapping, not {self._shown()}")
        names = None if allowed is None else list(allowed)
        for key, node in self.value.items():
            if names is not None and key not in names:
                node.fail(f"is not known here; known: {', '.join(names)}{_hint(key, names)}")
        return dict(self.value)

    def items(self) -> list[Node]:
        if not isinstance(self.value, list):
            self.fail(f"wants a list, not {self._shown()}")
        return self.value

    def _shown(self) -> str:
        match self.value:
            case None:
                return "nothing"
            case dict():
                return "a mapping"
            case list():
                return "a list"
        return repr(self.value)


def _hint(given: object, names: list[str]) -> str:
    close = difflib.get_close_matches(str(given), names, n=1)
    return f"; is {close[0]} meant?" if close else ""


def load(file: Path, base: Path | None = None) -> Node:
    """Load the whole file as one node; `base` defaults to its folder."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InvalidFile(file, None, "", error.strerror or str(error)) from error
    if len(raw) > FILE_BYTES_MAX:
        raise InvalidFile(file, None, "", f"larger than {FILE_BYTES_MAX} bytes: is it a pipeline?")
    loader = None
    try:
        loader = yaml.SafeLoader(raw)
        root = loader.get_single_node()
        if root is None:
            raise InvalidFile(file, None, "", "is empty")
        return _Marker(file, loader, base or file.parent).node(root, "", 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "is no YAML"
        raise InvalidFile(file, mark.line + 1 if mark else None, "", problem) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidFile(file, None, "", f"is no YAML: {error}") from error
    except RecursionError as error:
        raise InvalidFile(file, None, "", "is nested too deeply") from error
    finally:
        if loader is not None:
            loader.dispose()


class _Marker:
    """Converts PyYAML's nodes to `Node`."""

    def __init__(self, file: Path, loader: yaml.SafeLoader, base: Path) -> None:
        self._file = file
        self._base = base
        self._loader = loader
        self._values = 0

    def node(self, found: yaml.Node, path: str, depth: int) -> Node:
        line = found.start_mark.line + 1
        if depth > DEPTH_MAX:
            raise InvalidFile(self._file, line, path, "is nested too deeply")
        self._values += 1
        if self._values > VALUES_MAX:
            raise InvalidFile(
                self._file,
                line,
                path,
                f"the file has more than {VALUES_MAX} values, counting each alias as what it "
                "stands for: use fewer aliases",
            )
        return Node(self._value(found, path, depth), self._file, line, path, self._base)

    def _value(self, found: yaml.Node, path: str, depth: int) -> Any:
        match found:
            case yaml.SequenceNode():
                return [
                    self.node(each, f"{path}[{index}]", depth + 1)
                    for index, each in enumerate(found.value)
                ]
            case yaml.MappingNode():
                return self._mapping(found, path, depth)
        try:
            return self._loader.construct_object(found, deep=True)
        except ValueError as error:  # for example a date in month 13
            raise InvalidFile(self._file, found.start_mark.line + 1, path, str(error)) from error

    def _mapping(self, found: yaml.MappingNode, path: str, depth: int) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in found.value:
            if key.tag == _MERGE:
                merged = {**self._merged(value, path, depth), **merged}
                continue
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            place = f"{path}.{name}" if path else name
            if name in fields:
                raise InvalidFile(
                    self._file, key.start_mark.line + 1, place, "is there a second time"
                )
            node = self.node(value, place, depth + 1)
            fields[name] = replace(node, line=key.start_mark.line + 1)
        return {**merged, **fields}

    def _merged(self, value: yaml.Node, path: str, depth: int) -> dict[str, Node]:
        """Return the fields from `<<: *anchor` or `<<: [*one, *other]`; the first one wins."""
        several = value.value if isinstance(value, yaml.SequenceNode) else [value]
        found: dict[str, Node] = {}
        for each in several:
            node = self.node(each, path, depth + 1)
            found = {**node.mapping(), **found}
        return found
