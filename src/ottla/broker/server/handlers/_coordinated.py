"""Passes requests to the coordinator of their group or transaction, and its answers back.

def handle(context, request):
    reply = Reply(lambda error: HeartbeatResponse(error_code=error.code))
    context.services.coordinators.groups.request(
        request.group_id,
        reply,
        lambda shard, now, outbox: shard.heartbeat(request, client(context), reply, now, outbox),
    )
    return reply.result
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.server.pending import Pending
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def client(context: BrokerContext) -> Client:
    return Client(context.client_id or "", f"/{context.caller.host}", context.api_version)


class Reply(Pending):
    """The token of a request: a coordinator resolves it with the answer, now or later."""

    __slots__ = ("_refuse", "_shape", "holds_connection")

    def __init__(
        self,
        refuse: Callable[[KafkaError], Any],
        shape: Callable[[Any], Any] | None = None,
        *,
        holds_connection: bool = True,
    ) -> None:
        """`refuse` builds a response from an error alone; `shape` adapts a response to the client.

        If the step is done and only its records are not committed yet, the reply does not hold up
        the next request of the connection.
        """
        super().__init__()
        self.holds_connection = holds_connection
        self._refuse = refuse
        self._shape = shape

    def resolve(self, response: Any) -> None:
        if self._shape is not None and not self.resolved:
            response = self._shape(response)
        super().resolve(response)

    def fail(self, error: KafkaError) -> None:
        self.resolve(self._refuse(error))

    def refused(self, check: Callable[..., object], *arguments: object) -> bool:
        """True if `check` refuses the arguments of the request; the error is then the answer. Kafka
        checks them on every broker, before it looks up the group's coordinator."""
        try:
            check(*arguments)
        except KafkaError as error:
            self.fail(error)
            return True
        return False


class Gathering(Pending):
    """An answer combined from several shards. Ask each with a `part()`, then call `close()`."""

    __slots__ = ("_closed", "_combine", "_parts", "_unanswered")

    holds_connection = False

    def __init__(self, combine: Callable[[list[Any]], Any]) -> None:
        """`combine` gets the answers of the parts in the order in which the parts were made."""
        super().__init__()
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
        """Call this when all parts have been asked."""
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
