"""Regular expressions in Java's dialect, as rules in Kafka's settings have them."""

from __future__ import annotations

import re
from typing import Final

_REFERENCE: Final = r"\\(.)|\$(\d+)"
_ANY_REFERENCE: Final = re.compile(r"\\.|\$(\d)|\$\{(\w+)\}|[$\\]", re.DOTALL)
_NAMED: Final = re.compile(r"\\.|\$\{(\w+)\}", re.DOTALL)


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises `re.error`."""
    return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))


def replacement_of(match: re.Match[str], replacement: str) -> str:
    """Return what Java's `replaceAll` puts in the place of a match."""

    def resolved(reference: re.Match[str]) -> str:
        escaped, digits = reference.groups()
        if escaped is not None:
            return str(escaped)
        # As in Java, as many digits count as there are groups: `$10` is `$1` and a zero. A
        # reference to a group that the pattern does not have stands for itself.
        for end in range(len(digits), 0, -1):
            if int(digits[:end]) <= match.re.groups:
                return (match[int(digits[:end])] or "") + digits[end:]
        return reference[0]

    return re.sub(_REFERENCE, resolved, replacement)


def checked_replacement_of(match: re.Match[str], replacement: str) -> str:
    """Return the same; raises `ValueError` where Java throws: at a reference to a group that the
    pattern does not have, and at a lone `$` or backslash."""
    for found in _ANY_REFERENCE.finditer(replacement):
        if found[0] in ("$", "\\"):
            raise ValueError(f"a lone {found[0]} in {replacement!r}")
        if found[1] is not None and int(found[1]) > match.re.groups:
            raise ValueError(f"No group {found[1]}")
        if found[2] is not None and found[2] not in match.re.groupindex:
            raise ValueError(f"No group with name {found[2]}")
    numbered = _NAMED.sub(
        lambda found: found[0] if found[1] is None else f"${match.re.groupindex[found[1]]}",
        replacement,
    )
    return replacement_of(match, numbered)
