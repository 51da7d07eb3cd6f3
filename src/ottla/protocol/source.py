"""Writes Python source line by line, for the codecs that are compiled on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.protocol.schema import Field

# The `struct` format of each kind of fixed size.
FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
# A longer string cannot be sent in the classic format, so Kafka allows it in none.
STRING_SIZE_MAX = 0x7FFF


class SourceWriter:
    """The lines of one function, and the objects that its names refer to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._depth = 0
        self._counter = 0

    def emit(self, *lines: str) -> None:
        indent = "    " * self._depth
        self.lines.extend(indent + line for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return an unused local name."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def name(self, stem: str, value: Any) -> str:
        """Return a global name for `value`; the same one when asked again."""
        for known, there in self.names.items():
            if there is value:
                return known
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def shared(self, name: str, make: Callable[[], Any]) -> str:
        """Return a global of this very name, made on first use."""
        if name not in self.names:
            self.names[name] = make()
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def compile(self, function: str) -> Any:
        exec(compile(self.text(), f"<{self.title}>", "exec"), self.names)
        return self.names[function]


def element_kind(field: Field) -> str:
    """Return the kind of an array's elements."""
    if field.struct_class is not None:
        return "struct"
    assert field.element is not None
    kind = field.element.__name__
    return {"octets": "bytes"}.get(kind, kind)


def format_name(prefix: str, layout: str) -> str:
    """Return a readable global name for the packer or unpacker of this layout."""
    return prefix + layout.replace("16s", "u").replace("?", "t")
