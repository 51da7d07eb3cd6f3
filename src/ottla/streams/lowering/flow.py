"""Runs records through the operations without state."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.frame import Frame
from ottla.streams.lowering.global_join import GlobalTables, join_global
from ottla.streams.lowering.mistakes import mistakes_of
from ottla.streams.lowering.stateless import Step, lower, merge
from ottla.streams.plan.plan import starts
from ottla.streams.topology.stateless import JoinGlobal, Merge
from ottla.streams.topology.topology import Node


class Flow:
    """The frames at each node, from the `entering` frames alone; other queries add the rest."""

    def __init__(
        self, entering: Mapping[Node, Frame], dead: DeadLetters, tables: GlobalTables
    ) -> None:
        self._entering = entering
        self._dead = dead
        self._tables = tables
        self._known: dict[Node, Frame | None] = {}

    def at(self, node: Node) -> Frame | None:
        if node not in self._known:
            self._known[node] = self._found(node)
        return self._known[node]

    def _found(self, node: Node) -> Frame | None:
        frames = [self._entering[node]] if node in self._entering else []
        if not starts(node) and (passed := self._passed(node)):
            frames.append(passed)
        return merge(node, frames) if len(frames) > 1 else next(iter(frames), None)

    def _passed(self, node: Node) -> Frame | None:
        """Return the frame after the node's operation."""
        operation = node.operation
        if isinstance(operation, Merge):
            reaching = [frame for parent in node.parents if (frame := self.at(parent))]
            return merge(node, reaching) if reaching else None
        frame = self.at(node.parents[0])
        if frame is None:
            return None
        if isinstance(operation, JoinGlobal):
            with mistakes_of(node, frame.data):
                return join_global(node, frame, self._tables, self._dead)
        return lower(Step(node, frame, self._dead))
