"""The errors of a streams application, as a tree.

StreamsError
├── BadTopology        the program asks for something that cannot be built
├── TopologyChanged    the program no longer fits the checkpoint it is started on
├── TopicsMissing      topics that the application reads do not exist
├── StoreMissing       no store of that name, or it is still empty
└── QueryFailed        a query stopped with an error: names the node and, if known, the record
"""

from __future__ import annotations

from collections.abc import Iterable


class StreamsError(Exception):
    """Any error of a streams application."""


class BadTopology(StreamsError, ValueError):
    """The program asks for something that cannot be built. `told` is the step as the message names
    it, if it does; `line` is the line in the program."""

    def __init__(self, problem: str, *, told: str = "", line: int | None = None) -> None:
        self.problem = problem
        self.told = told
        self.line = line
        super().__init__(f"{told}: {problem}" if told else problem)


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
    """`node` is the one that failed, if known; `details` is Spark's whole message."""

    def __init__(
        self,
        query: str,
        reason: str,
        details: str = "",
        *,
        node: str | None = None,
        place: str | None = None,
    ) -> None:
        self.query = query
        self.node = node
        self.place = place
        self.details = details
        at = f" at {place or node}" if place or node else ""
        super().__init__(f"the query {query!r} failed{at}: {reason}")
