"""`sasl.kerberos.principal.to.local.rules`: the name of a user, from a Kerberos principal.

    RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//, RULE:[2:$1](kafka.*)/L, DEFAULT

`[2:$1]` is for principals of two components, such as `kafka/host@REALM`: `$0` is the realm, `$1`
and `$2` are the components. What the format gives must match the expression in parentheses as a
whole; then `s/from/to/` replaces a part, with `g` every one, and `/L` or `/U` changes the case. The
first rule that applies decides. `DEFAULT` takes the first component in the default realm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.security.java_regex import checked_replacement_of, compiled

_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d+):([^\]]*)](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?",
    re.ASCII,
)
_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"\$([0-9]*)")


class BadRule(ValueError):
    """A rule that cannot be used; the message says why."""


class NoRuleApplies(ValueError):
    """None of the rules gives this principal a name."""


class _Rule(NamedTuple):
    text: str
    is_default: bool
    components: int = 0
    format: str = ""
    match: re.Pattern[str] | None = None
    source: re.Pattern[str] | None = None
    replacement: str = ""
    is_repeated: bool = False
    case: str = ""

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """`parts` are the realm and the components."""
        if self.is_default:
            name = parts[1] if parts[0] == default_realm else None
        else:
            name = self._name(parts)
        if name is None:
            return None
        if "/" in name or "@" in name:
            raise NoRuleApplies(f"Non-simple name {name} after auth_to_local rule {self.text}")
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _name(self, parts: Sequence[str]) -> str | None:
        if len(parts) - 1 != self.components:
            return None
        base = _PARAMETER.sub(lambda found: _part(found[1], parts), self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.source is None:
            return base
        try:
            return self.source.sub(
                lambda match: checked_replacement_of(match, self.replacement),
                base,
                count=0 if self.is_repeated else 1,
            )
        except ValueError as error:
            raise NoRuleApplies(f"{self.text}: {error}") from None


class KerberosRules:
    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, texts: Sequence[str]) -> KerberosRules:
        """Raises `BadRule`."""
        return cls([_parsed(text) for text in texts])

    def name_of(self, principal: str, default_realm: str) -> str:
        """Raises `NoRuleApplies`."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            if "@" in principal:
                raise NoRuleApplies(f"Malformed Kerberos name: {principal}")
            return principal
        first, second, realm = found.groups()
        parts = (realm, first) if second is None else (realm, first, second)
        for rule in self._rules:
            name = rule.apply(parts, default_realm)
            if name is not None:
                return name
        raise NoRuleApplies(
            f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal}"
        )


def _parsed(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise BadRule(
            f"expected DEFAULT or RULE:[components:format](match)s/from/to/g/L, not {text!r}"
        )
    if found[1] is not None:
        return _Rule(text, True)
    return _Rule(
        text,
        False,
        int(found[2]),
        found[3],
        None if found[4] is None else _pattern(found[4], text),
        None if found[5] is None else _pattern(found[5], text),
        found[6] or "",
        found[7] == "g",
        found[8] or "",
    )


def _part(number: str, parts: Sequence[str]) -> str:
    """As in Kafka, a number that is out of range shows when the rule is applied."""
    if not number or int(number) >= len(parts):
        raise NoRuleApplies(f"${number} in a format is outside of $0 to ${len(parts) - 1}")
    return parts[int(number)]


def _pattern(pattern: str, rule: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except re.error as error:
        raise BadRule(f"{rule!r}: {pattern!r} is no regular expression: {error}") from error
