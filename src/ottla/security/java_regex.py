"""Regular expressions in Java's dialect, as rules in Kafka's settings have them."""

from __future__ import annotations

import re
from typing import Final

_REFERENCE: Final = r"\\(.)|\$(\d+)"


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
