"""Java's properties format, in which `server.properties` is written."""

import re
from collections.abc import Iterator
from typing import Final

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<sep>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{0,4}|.)", re.DOTALL)
_BLANKS: Final = " \t\f"
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A line that is not in properties format; the message starts with file and line."""


class Properties(dict[str, str]):
    """Keys and values of a file, with the file and line of each in `where`."""

    def __init__(self) -> None:
        super().__init__()
        self.where: dict[str, str] = {}


def parse_properties(text: str, source: str = "server.properties") -> Properties:
    """Return all settings of a properties file; if a key is given twice, the later value counts."""
    properties = Properties()
    for number, line in _logical_lines(text):
        place = f"{source}:{number}"
        key, value = _split(line)
        name = _unescape(key, place)
        properties[name] = _unescape(value, place)
        properties.where[name] = place
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with content; a line that ends in a backslash is joined with the next."""
    lines = enumerate(re.split(r"\r\n|\n|\r", text), start=1)
    for number, line in lines:
        logical = line.lstrip(_BLANKS)
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            _, following = next(lines, (0, ""))
            logical = logical[:-1] + following.lstrip(_BLANKS)
            if not following:
                break
        yield number, logical


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    if found := _SEPARATOR.search(line):
        return line[: found.start("sep")], line[found.end("sep") :]
    return line, ""


def _unescape(text: str, place: str) -> str:
    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] != "u":
            return _NAMED.get(escape, escape)
        if len(escape) != 5:
            raise PropertiesError(rf"{place}: \{escape} must have four hexadecimal digits")
        return chr(int(escape[1:], 16))

    return _ESCAPE.sub(character, text)
