"""What can be wrong with a configuration, all of it told at once."""

from collections.abc import Sequence
from typing import NamedTuple


class Problem(NamedTuple):
    """One thing to correct: which key, the value found there, and what it should be."""

    key: str
    value: str | None
    expected: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.key}: {self.expected}"
        return f"Invalid value {self.value} for configuration {self.key}: {self.expected}"


class Unknown(NamedTuple):
    """A key nobody knows; `message` names it and, where one is near, the key that was meant."""

    key: str
    value: str | None
    message: str

    def __str__(self) -> str:
        return self.message


class ConfigError(ValueError):
    """A configuration that cannot be used; `problems` lists every reason, not only the first."""

    def __init__(self, problems: Sequence[Problem | Unknown]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls, key: str, value: str | None, expected: str) -> "ConfigError":
        return cls([Problem(key, value, expected)])
