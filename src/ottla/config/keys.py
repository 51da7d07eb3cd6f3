"""The notation in which keys are declared, similar to Kafka's documentation.

Each key has two lines: importance, type, name, default and limits; then its description.

    high int log.segment.bytes = 1073741824 (at least 1048576)
        Size at which a segment is closed and the next one begun.

Without `=` a key has no default. `internal` after the importance hides a key from listings.
"""

from typing import Any, Final, NamedTuple

from ottla.config.limits import Limit, parse_limit
from ottla.config.updates import READ_ONLY, UPDATE_MODES
from ottla.config.used import USED
from ottla.config.values import ConfigType, IllTyped, parse_value, value_text

_TYPES: Final = {kind.name.lower(): kind for kind in ConfigType}


class ConfigKey(NamedTuple):
    """The declaration of a key. `used`: Ottla uses it already."""

    name: str
    type: ConfigType
    default: Any
    limit: Limit | None
    importance: str
    internal: bool
    doc: str
    used: bool
    update_mode: str

    @property
    def sensitive(self) -> bool:
        """True if the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        return value_text(self.default)

    def parse(self, text: str) -> Any:
        """Return the checked value of `text`; raises `IllTyped` with what was expected."""
        value = parse_value(self.type, text)
        if self.limit is not None and (expected := self.limit(value)):
            raise IllTyped(expected)
        return value


def declare(text: str) -> dict[str, ConfigKey]:
    """Return the keys of a table in the notation above, by name."""
    lines = text.strip().splitlines()
    keys = (_key(facts, doc) for facts, doc in zip(lines[::2], lines[1::2], strict=True))
    return {key.name: key for key in keys}


def _key(declaration: str, doc: str) -> ConfigKey:
    facts, _, limit = declaration.partition(" (")
    left, equals, default = facts.partition(" =")
    importance, *internal, kind_name, name = left.split()
    kind = _TYPES[kind_name]
    return ConfigKey(
        name,
        kind,
        parse_value(kind, default) if equals else None,
        parse_limit(limit.removesuffix(")")) if limit else None,
        importance,
        bool(internal),
        doc.strip(),
        name in USED,
        UPDATE_MODES.get(name, READ_ONLY),
    )
