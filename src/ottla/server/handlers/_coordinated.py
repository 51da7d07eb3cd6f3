"""From a request to the coordinator of its group or transaction, and back.

def handle(context, request):
    reply = Reply(lambda error: HeartbeatResponse(error_code=error.code))
    context.node.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.heartbeat(request, client(context), reply, now, outbox),
    )
    return reply.result
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.classic.client import Client
from ottla.protocol.errors import KafkaError
from ottla.server.pending import Pending

if TYPE_CHECKING:
    from ottla.server.context import RequestContext


def client(context: RequestContext) -> Client:
    return Client(context.client_id or "", f"/{context.connection.peer[0]}", context.api_version)


class Reply(Pending):
    """The token of a request: what a coordinator answers, now or later."""

    __slots__ = ("_refuse", "_response")

    def __init__(self, refuse: Callable[[KafkaError], Any]) -> None:
        """`refuse` shapes an answer that is nothing but an error."""
        super().__init__()
        self._refuse = refuse
        self._response: Any = None

    def resolve(self, response: Any) -> None:
        if self._callback is None and not self._resolved:
            self._response = response
        super().resolve(response)

    def fail(self, error: KafkaError) -> None:
        self.resolve(self._refuse(error))

    @property
    def result(self) -> Any:
        """What the handler returns: the answer, if there is one by now, or this promise of it."""
        return self._response if self._resolved else self


class OverlappingReply(Reply):
    """The same, where the next request of the connection may be served meanwhile: the step is done,
    only its records are not committed yet."""

    __slots__ = ()

    holds_connection = False


class Gathering(OverlappingReply):
    """An answer put together from several shards. Ask each with a `part()`, then call `close()`."""

    __slots__ = ("_closed", "_combine", "_parts", "_unanswered")

    def __init__(self, combine: Callable[[list[Any]], Any]) -> None:
        """`combine` gets the answers of the parts in the order in which these were made."""
        super().__init__(lambda error: None)
        self._combine = combine
        self._parts: list[Any] = []
        self._unanswered = 0
        self._closed = False

    def part(self, refuse: Callable[[KafkaError], Any]) -> _Part:
        self._parts.append(None)
        self._unanswered += 1
        return _Part(self, len(self._parts) - 1, refuse)

    def answered(self, index: int, response: Any) -> None:
        self._parts[index] = response
        self._unanswered -= 1
        self._finish()

    def close(self) -> None:
        """All parts have been asked."""
        self._closed = True
        self._finish()

    def _finish(self) -> None:
        if self._closed and not self._unanswered:
            self.resolve(self._combine(self._parts))


class _Part:
    """The token of one shard's share of the answer."""

    __slots__ = ("_gathering", "_index", "_refuse", "resolved")

    def __init__(
        self, gathering: Gathering, index: int, refuse: Callable[[KafkaError], Any]
    ) -> None:
        self._gathering = gathering
        self._index = index
        self._refuse = refuse
        self.resolved = False

    def resolve(self, response: Any) -> None:
        if not self.resolved:
            self.resolved = True
            self._gathering.answered(self._index, response)

    def fail(self, error: KafkaError) -> None:
        self.resolve(self._refuse(error))
