"""The values of keys for one listener: `listener.name.internal.ssl.keystore.location`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.config.keys import ConfigKey
from ottla.config.values import IllTyped

_LISTENER_PREFIX: Final = "listener.name."


class ListenerKeys:
    """The values of some keys for one listener: its own, or else those of the broker."""

    def __init__(
        self,
        listener: str,
        keys: Mapping[str, ConfigKey],
        values: Mapping[str, Any],
        given: Iterable[Mapping[str, str]],
    ) -> None:
        """`given` are the texts by full name, those that take precedence first."""
        self._prefix = f"{_LISTENER_PREFIX}{listener.lower()}."
        self._values = values
        self._own: dict[str, Any] = {}
        for texts in given:
            for name, text in texts.items():
                base = name.removeprefix(self._prefix)
                if base == name or base in self._own:
                    continue
                key = keys.get(base) or keys.get(base.partition(".")[2])
                if key is None:
                    continue
                try:
                    self._own[base] = key.parse(text)
                except IllTyped:
                    pass  # reported with the other values

    def __contains__(self, base: str) -> bool:
        """True if the listener has a value of its own."""
        return base in self._own

    def __getitem__(self, base: str) -> Any:
        return self._own[base] if base in self._own else self._values[base]

    def of_mechanism(self, mechanism: str, base: str) -> Any:
        """Return the listener's value for one SASL mechanism; None if it has none."""
        return self._own.get(f"{mechanism.lower()}.{base}")

    def value_for(self, mechanism: str, base: str) -> Any:
        """Return the value for one SASL mechanism: its own, or else that of the listener."""
        own = self.of_mechanism(mechanism, base)
        return self[base] if own is None else own

    def name_for(self, mechanism: str, base: str) -> str:
        """Return the full name of the key that has this value."""
        if self.of_mechanism(mechanism, base) is None:
            return self.name(base)
        return f"{self._prefix}{mechanism.lower()}.{base}"

    def name(self, base: str) -> str:
        """Return the full name of the key that has the value."""
        return self._prefix + base if base in self._own else base

    def own_name(self, base: str) -> str:
        """Return the full name of the key that is this listener's alone."""
        return self._prefix + base
