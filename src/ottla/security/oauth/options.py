"""Options of a JAAS line for OAUTHBEARER: what is wrong with one, and extensions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_RESERVED: Final = "auth"


class BadOption(ValueError):
    """A setting that cannot be used. The message shows no value that may be secret."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def extensions_of(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the SASL extensions (RFC 7628) that options with this prefix name; raises
    `BadOption`."""
    found = {}
    for option, value in options.items():
        if not option.startswith(prefix):
            continue
        name = option.removeprefix(prefix)
        if not _NAME.fullmatch(name) or name == _RESERVED:
            raise BadOption(option, f"an extension has a name of letters other than {_RESERVED}")
        if not _VALUE.fullmatch(value):
            raise BadOption(option, "an extension has a value of printable ASCII characters")
        found[name] = value
    return found
