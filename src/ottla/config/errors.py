"""The problems of a configuration, all reported at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Problem(NamedTuple):
    """A value to correct: the key, the value found, and what is expected."""

    key: str
    value: str | None
    expected: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.key}: {self.expected}"
        return f"Invalid value {self.value} for configuration {self.key}: {self.expected}"


class Unknown(NamedTuple):
    """An unknown key; `message` names it and, if there is one, a similar known key."""

    key: str
    value: str | None
    message: str

    def __str__(self) -> str:
        return self.message


class ConfigError(ValueError):
    """A configuration that cannot be used; `problems` lists every reason, not only the first.

    `where` has the file and line of keys that came from a file.
    """

    def __init__(
        self, problems: Sequence[Problem | Unknown], where: Mapping[str, str] | None = None
    ) -> None:
        self.problems = tuple(problems)
        places = where or {}
        super().__init__(
            "\n".join(
                f"{places[problem.key]}: {problem}" if problem.key in places else str(problem)
                for problem in self.problems
            )
        )

    @classmethod
    def of(cls, key: str, value: str | None, expected: str) -> "ConfigError":
        return cls([Problem(key, value, expected)])
