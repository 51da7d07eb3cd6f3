"""The context of a pipeline: facts about its running version, and its reported outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOOTSTRAP = "kafka.bootstrap.servers"
DEFAULT_BOOTSTRAP = "localhost:9092"
_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
AT_ONCE = "0 seconds"
"""The trigger of a query that begins a batch as soon as there is something to do."""


def connection_of(
    own: Mapping[str, str],
    given: Mapping[str, str],
    defaults: Mapping[str, str],
    bootstrap: str | None = None,
) -> dict[str, str]:
    """Return how an application connects: `own` is what it says itself; `given` and `bootstrap`, of
    the command line, win over it. So do `defaults`, unless the application says itself how to sign
    in: then they are another user's."""
    used = {} if signs_in(own) else defaults
    connection = {BOOTSTRAP: DEFAULT_BOOTSTRAP, **own, **used, **given}
    if bootstrap:
        connection[BOOTSTRAP] = bootstrap
    return connection


def signs_in(own: Mapping[str, str]) -> bool:
    """True if an application says anything about its security."""
    return any(name.startswith(_SECURITY) for name in own)


@dataclass
class Context:
    """Given to `def pipeline(spark, context)`.

    Pass the names of outputs through `topic` and `path`, so that a second version beside the first
    writes to its own topics and folders; pass checkpoints through `checkpoint`.
    """

    name: str
    version: int = 1
    suffix: str = ""
    checkpoints: str = "checkpoints"
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options `kafka.*` for `format("ottla")`, with the address of the cluster."""
    from_earliest: bool = False
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"processingTime": AT_ONCE})
    """For `writeStream.trigger(**context.trigger)`."""
    topics: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def topic(self, name: str) -> str:
        """Return the topic that this version writes instead of `name`."""
        self.topics[name] = name + self.suffix
        return self.topics[name]

    def path(self, path: str) -> str:
        """Return the folder that this version writes instead of `path`."""
        self.paths[path] = path.rstrip("/") + self.suffix
        return self.paths[path]

    def checkpoint(self, name: str = "main") -> str:
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"{name!r} is no name of a checkpoint: letters, digits, . _ -")
        return f"{self.checkpoints.rstrip('/')}/{name}"

    def starting(self, offsets: str = "earliest") -> str:
        """Return the option startingOffsets: reprocessing always begins at the earliest."""
        return "earliest" if self.from_earliest else offsets

    @property
    def bootstrap(self) -> str:
        return self.connection[BOOTSTRAP]
