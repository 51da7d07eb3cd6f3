"""`ssl.principal.mapping.rules`: the name of a TLS client, from the subject of its certificate.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),.*$/$1@example/L, DEFAULT

The first rule whose pattern matches the whole subject decides: `$1` is what the first group
matched, `L` and `U` change the case. `DEFAULT` takes the subject as it is.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.security.java_regex import compiled, replacement_of

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)\/((\\.|[^\\/])*)\/([LU]?).*?|(.*?)"
_SPLITTER: Final = rf"\s*({_RULE})\s*(,\s*|$)"


class BadRule(ValueError):
    """A rule that cannot be used; the message says why."""


class NoRuleMatches(ValueError):
    """None of the rules gives this subject a name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(lambda match: replacement_of(match, self.replacement), subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalRules:
    __slots__ = ("_rules",)

    def __init__(self, rules: tuple[_Rule | None, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Raises `BadRule`."""
        rules: list[_Rule | None] = []
        for found in re.finditer(_SPLITTER, text.strip()):
            rule = found[1]
            parts = re.match(_RULE, rule)
            if parts is None or parts.end() < len(rule):
                raise BadRule(f"expected DEFAULT or RULE:pattern/replacement/[LU], not {rule!r}")
            if parts[1] is not None:
                rules.append(None)
            elif parts[2] is not None:
                rules.append(_Rule(_compiled(parts[2]), parts[4], parts[6]))
        return cls(tuple(rules))

    def name_of(self, subject: str) -> str:
        """Raises `NoRuleMatches`."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleMatches(f"no rule of ssl.principal.mapping.rules matches {subject}")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except re.error as error:
        raise BadRule(f"{pattern!r} is no regular expression: {error}") from error
