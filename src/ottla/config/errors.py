"""What can be wrong with a configuration, all of it told at once."""

from collections.abc import Mapping, Sequence
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
    """A configuration that cannot be used; `problems` lists every reason, not only the first.

    `where` says at which file and line a key was set, for those that came from a file.
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
