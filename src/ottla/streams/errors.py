"""What can go wrong with a streams application, as a tree.

StreamsError
├── BadTopology        the program asks for something that cannot be built
├── TopologyChanged    the program no longer fits the checkpoint it is started on
├── TopicsMissing      topics that the application reads are not there
├── StoreMissing       no store of that name, or nothing in it yet
└── QueryFailed        a query stopped with an error: says which node and, if known, which record
"""

from __future__ import annotations

from collections.abc import Iterable


class StreamsError(Exception):
    """Anything that a streams application complains of."""


class BadTopology(StreamsError, ValueError):
    """What the program asks for cannot be built."""


class TopologyChanged(StreamsError):
    """State or offsets in the checkpoint belong to another program."""

    def __init__(self, query: str, folder: str, changes: Iterable[str]) -> None:
        self.query = query
        self.changes = tuple(changes)
        listed = "".join(f"\n  - {change}" for change in self.changes)
        super().__init__(
            f"the query {query!r} does not fit its checkpoint {folder}:{listed}\n"
            "Start it beside the old one with app.renamed(...), or with another folder of"
            " checkpoints, or take the change back."
        )


class TopicsMissing(StreamsError):
    def __init__(self, topics: Iterable[str], servers: str) -> None:
        self.topics = tuple(topics)
        names = ", ".join(self.topics)
        super().__init__(f"the topics to read are not at {servers}: {names}. Create them first.")


class StoreMissing(StreamsError, KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


class QueryFailed(StreamsError):
    """`node` is the one that failed, as far as is known; `details` is all that Spark says."""

    def __init__(
        self, query: str, reason: str, details: str = "", *, node: str | None = None
    ) -> None:
        self.query = query
        self.node = node
        self.details = details
        at = f" at {node}" if node else ""
        super().__init__(f"the query {query!r} failed{at}: {reason}")
