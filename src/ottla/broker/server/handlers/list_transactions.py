"""ListTransactions: the transactional ids that this broker coordinates."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.consumer.regex import InvalidRegex, TopicRegex
from ottla.broker.coordinator.transactions.listing import list_transactions
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.broker.server.pending import resolved
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.runtime.pace import at_once, many_in_slices
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.transactions.transaction import Transaction
    from ottla.broker.server.context import BrokerContext


AT_ONCE_TRANSACTIONS_MAX: Final = 500
"""Above this number of transactional ids the answer is built in slices."""


def handle(context: BrokerContext, request: ListTransactionsRequest) -> Any:
    coordinator = context.services.coordinators.transactions.coordinator
    try:
        matches = _matcher(request.transactional_id_pattern)
        indexes = [index for index, _ in coordinator.shards()]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    gathering = Gathering(lambda parts: parts)
    for index in indexes:
        part = gathering.part(lambda error: error)
        coordinator.hosted(index).request(
            part,
            lambda shard, now, outbox, part=part: shard.list(part, outbox),  # type: ignore[misc]
            writes=False,
        )
    gathering.close()
    if not gathering.resolved:
        return _list_later(context, request, matches, gathering)
    steps = _list(context, request, matches, gathering.result)
    if sum(map(_count, gathering.result)) <= AT_ONCE_TRANSACTIONS_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


async def _list_later(
    context: BrokerContext,
    request: ListTransactionsRequest,
    matches: Callable[[str], bool],
    gathering: Gathering,
) -> ListTransactionsResponse:
    """Wait until what the listed states depend on is replicated."""
    parts = await resolved(gathering)
    steps = _list(context, request, matches, parts)
    return await many_in_slices(context.services.runtime, steps)


def _list(
    context: BrokerContext,
    request: ListTransactionsRequest,
    matches: Callable[[str], bool],
    parts: list[list[Transaction] | KafkaError],
) -> Generator[None, None, ListTransactionsResponse]:
    transactions: list[Transaction] = []
    for part in parts:
        if isinstance(part, KafkaError):
            return ListTransactionsResponse(error_code=part.code)
        transactions += part
    now_ms = context.services.runtime.clock.wall_ms()
    response = yield from list_transactions(transactions, request, matches, now_ms)
    if context.services.authorizer is None:
        return response
    shown = []
    for state in response.transaction_states:
        name = state.transactional_id
        if context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, quiet=True):
            shown.append(state)
        yield
    response.transaction_states = shown
    return response


def _count(part: list[Transaction] | KafkaError) -> int:
    return 0 if isinstance(part, KafkaError) else len(part)


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda name: True
    try:
        regex = TopicRegex(pattern)
    except InvalidRegex as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    # The automaton knows only the characters of topic names; an id with others matches nothing.
    return lambda name: name.isascii() and _plain(name) and regex.matches(name)


def _plain(name: str) -> bool:
    return all(char.isalnum() or char in "._-" for char in name)


HANDLER = Handler(on_broker=handle)
