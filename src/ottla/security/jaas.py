"""JAAS lines, in which Kafka's users keep names and passwords:

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="x";

Kafka reads them with Java's `StreamTokenizer`, whose rules are kept: `//`, `/*` and also a single
`/` begin comments, quoted values have C's escapes, and a number without quotes is no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\x00-\x20]+)
    | (?P<comment>/\*.*?(?:\*/|\Z) | /[^\n\r]*)
    | (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+))
    | (?P<word>[A-Za-z_$\xa0-\U0010ffff-][A-Za-z0-9_$.\xa0-\U0010ffff-]*)
    | (?P<quoted>"(?:[^"\\\n\r]|\\.)*"? | '(?:[^'\\\n\r]|\\.)*'?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_NAMED_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


class BadJaas(ValueError):
    """A line that cannot be read. The message shows no value of it."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """Return the one login module in `text`; raises `BadJaas`."""
    tokens = _tokens(text)
    entries = []
    for kind, module in tokens:
        if kind != "word":
            raise BadJaas("it must begin with the class of a login module")
        entries.append(_entry(module, tokens))
    if not entries:
        raise BadJaas("Login module not specified in JAAS config")
    if len(entries) > 1:
        raise BadJaas(f"JAAS config property contains {len(entries)} login modules, should be 1")
    return entries[0]


def _entry(module: str, tokens: Iterator[tuple[str, str]]) -> JaasEntry:
    _, flag = next(tokens, ("end", ""))
    if not flag:
        raise BadJaas("Login module control flag not specified in JAAS config")
    if flag.lower() not in _FLAGS:
        raise BadJaas(f"a control flag must follow the login module: {', '.join(sorted(_FLAGS))}")
    options: dict[str, str] = {}
    for kind, name in tokens:
        if (kind, name) == ("other", ";"):
            return JaasEntry(module, options)
        equals, value = next(tokens, ("end", "")), next(tokens, ("end", ""))
        if equals != ("other", "=") or value[0] not in ("word", "quoted"):
            shown = name if kind == "word" else ""
            raise BadJaas(
                f"Value not specified for key '{shown}' in JAAS config; put values in quotes"
            )
        options[name] = value[1]
    raise BadJaas("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup or "", match[0]
        if kind in ("space", "comment"):
            continue
        if kind == "quoted":
            closed = len(found) > 1 and found[-1] == found[0]
            found = _ESCAPE.sub(_unescaped, found[1 : -1 if closed else None])
        yield kind, found


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _NAMED_ESCAPES.get(escaped, escaped)
